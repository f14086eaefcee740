"""Which language a text is in: by its tag, or guessed by its characters; and what follows for the page."""

import re
from collections import Counter
from dataclasses import dataclass

# The most frequent characters of running text; they also tell a right decoding from a wrong one.
SHARED = set("的一是不了在人有我他大中到上地出就自那也得可下之年天所家好而能多然子生心去用作道同本起日都和成只行前主面想如最三小已"
             "方手知理些公使二明正月全文力第外性先名但意法定由此重新今相又使因者其些加合原及件各本位工代法")
_SIMPLIFIED = set("这个们来为国说时会对学过发经种动现开关问长进样实话从点机业间体应两头还总论设线级处电见务报车东书语认识让"
                  "该许请读写网络页图节运数据统术类别标题试验结构传输导变换择码")
_TRADITIONAL = set("這個們來為國說時會對學過發經種動現開關問長進樣實話從點機業間體應兩頭還總論設線級處電見務報車東書語認識讓"
                   "該許請讀寫網絡頁圖節運數據統術類別標題試驗結構傳輸導變換擇碼")
SIMPLIFIED, TRADITIONAL = _SIMPLIFIED - _TRADITIONAL, _TRADITIONAL - _SIMPLIFIED
HANGUL = set("이다는에을의가고하지로도를서한은기사대리자어나시부정그인해스수일보아있것들과와습니게면적으만")
KANA = re.compile("[\u3041-\u30fa]")
SYLLABLE = re.compile("[\uac00-\ud7a3]")
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
CJK = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
                 "\U00020000-\U0003ffff]")
_NO_WORDS = re.compile(r"```.*?```|`[^`\n]*`|https?://\S+", re.DOTALL)
_ENGLISH = re.compile(r"\b(?:the|and|of|to|in|is|that|for|with|this|are)\b", re.IGNORECASE)
_WORDS = {"zh": ("目录", "注释"), "zh-Hant": ("目錄", "註釋"), "ja": ("目次", "注"), "ko": ("차례", "주석"),
          "de": ("Inhalt", "Anmerkungen"), "fr": ("Table des matières", "Notes"), "es": ("Índice", "Notas")}


@dataclass(frozen=True)
class Language:
    """A language as the page needs it: `tag` for HTML (None: unknown), `code` and `region` for the shapes of glyphs."""

    tag: str | None
    code: str
    region: str | None
    face: str           # the variant of the CJK typeface: SC, TC, HK, JP or KR
    contents: str       # the heading of a table of contents
    notes: str

    @property
    def is_cjk(self) -> bool:
        """Whether the text is mainly in Chinese, Japanese or Korean."""
        return self.code in ("zh", "ja", "ko")


def language(tag: str | None) -> Language:
    """The language of a tag such as `zh-Hant`, `zh_CN`, `ja` or `en-GB`."""
    parts = re.split("[-_]", (tag or "").strip().lower())
    code = parts[0] if re.fullmatch("[a-z]{2,3}", parts[0]) else ""
    if code != "zh":
        face = {"ja": "JP", "ko": "KR"}.get(code, "SC")
        clean = "-".join([code, *(part for part in parts[1:] if re.fullmatch("[a-z0-9]{1,8}", part))])
        return Language(clean or None, code or "en", None, face, *_WORDS.get(code, ("Contents", "Notes")))
    if {"hk", "mo"} & set(parts):
        return Language("zh-HK", "zh", "HK", "HK", *_WORDS["zh-Hant"])
    if {"hant", "tw"} & set(parts):
        return Language("zh-Hant", "zh", "TW", "TC", *_WORDS["zh-Hant"])
    return Language("zh-Hans", "zh", "CN", "SC", *_WORDS["zh"])


def guess(text: str) -> str | None:
    """The tag of the language that a text seems to be in, or None."""
    sample = _NO_WORDS.sub("", text[:40_000])
    han, kana, syllables = (len(kind.findall(sample)) for kind in (HAN, KANA, SYLLABLE))
    if (han + kana + syllables) * 20 <= len(sample):
        return "en" if len(_ENGLISH.findall(sample)) * 40 > len(sample.split()) > 0 else None
    if kana * 8 > han + syllables:
        return "ja"
    if syllables > han:
        return "ko"
    counts = Counter(sample)
    traditional, simplified = (sum(counts[char] for char in chars) for chars in (TRADITIONAL, SIMPLIFIED))
    return "zh-Hant" if traditional > simplified else "zh-Hans"


def likeness(text: str) -> float:
    """How much a decoded text looks like one that a person wrote; for comparing decodings of the same bytes."""
    counts = Counter(char for char in text if char > "\x7f")
    likely = sum(number for char, number in counts.items() if _is_frequent(char))
    odd = sum(number for char, number in counts.items() if "\uff61" <= char <= "\uff9f" or "\ue000" <= char <= "\uf8ff")
    return (likely - odd) / (sum(counts.values()) or 1)


def _is_frequent(char: str) -> bool:
    return (char in SHARED or char in SIMPLIFIED or char in TRADITIONAL or char in HANGUL
            or "\u3000" <= char <= "\u30ff" or "\uff01" <= char <= "\uff5e" or "\u2010" <= char <= "\u2026")
