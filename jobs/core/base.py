"""What every table is made of."""

from sqlalchemy import BigInteger, Integer, MetaData, Text, text
from sqlalchemy.orm import DeclarativeBase

BigInt = BigInteger().with_variant(Integer, "sqlite")  # AUTOINCREMENT needs SQLite's own INTEGER


class Base(DeclarativeBase):
    metadata = MetaData()
    type_annotation_map = {str: Text, int: BigInt}


def where(condition: str) -> dict:
    """The condition of a partial index, as keywords of `Index`."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
