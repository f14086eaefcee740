"""The models: from the picture of a page to its lines of text."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy
import rapidocr
from PIL import Image

from jobs.types.ocr.pages import Page, Unreadable

MOST_THREADS = 4
SLICE = 1000             # pixels of a slice's longer side at least
MOST_SLICES = 60
_MODELS = Path(rapidocr.__file__).parent / "models"


class Reader:
    """Holds the models. They lie in rapidocr's wheel and are named by their files: nothing is ever downloaded."""

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        cv2.setNumThreads(1)
        self._read = rapidocr.RapidOCR(params={
            "Global.log_level": "error",
            "Global.max_side_len": 1_000_000,       # pages have a fitting size already
            "EngineConfig.onnxruntime.intra_op_num_threads": min(cores, MOST_THREADS),
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Det.model_path": str(_MODELS / "PP-OCRv6_det_small.onnx"),
            "Cls.model_path": str(_MODELS / "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
            "Rec.model_path": str(_MODELS / "PP-OCRv6_rec_small.onnx")})

    def read(self, page: Page) -> list[dict[str, Any]]:
        """The lines from top to bottom: `{"text", "confidence": 0..1, "box": four corners [x, y], clockwise}`.

        The first corner is the one at which the text begins. Corners are in the page's units. Unreadable for a ribbon.
        """
        scale = page.width / page.image.width, page.height / page.image.height
        lines = []
        for left, top, part in slices(page.image):
            found = self._read(numpy.asarray(part)[:, :, ::-1])     # blue comes first there
            if found.txts is None:
                continue
            for text, confidence, box in zip(found.txts, found.scores, found.boxes):
                lines.append({"text": text, "confidence": round(float(confidence), 3), "box": [
                    [round((float(x) + left) * scale[0], 1), round((float(y) + top) * scale[1], 1)] for x, y in box]})
        return lines


def slices(image: Image.Image) -> Iterator[tuple[int, int, Image.Image]]:
    """The picture in parts that are at most twice as long as wide, with the place of each: (left, top, part).

    The models shrink what they are given to a square: of a long screenshot nothing would be left to read. Cuts go
    through the emptiest place.
    """
    upright = image.height >= image.width
    long, short = (image.height, image.width) if upright else (image.width, image.height)
    most = max(2 * short, SLICE)
    if long > MOST_SLICES * most * 0.7:
        raise Unreadable(f"it is too long for its width, {image.width}×{image.height}")
    start = 0
    while start < long:
        end = long if long - start <= most else _gap(image, start + most * 7 // 10, start + most, upright)
        if upright:
            yield 0, start, image.crop((0, start, short, end))
        else:
            yield start, 0, image.crop((start, 0, end, short))
        start = end


def _gap(image: Image.Image, start: int, end: int, upright: bool) -> int:
    """The place between `start` and `end` along the longer side around which least stands."""
    part = image.crop((0, start, image.width, end) if upright else (start, 0, end, image.height))
    ink = numpy.asarray(part.convert("L"), dtype=numpy.float32).std(axis=1 if upright else 0)
    wide = max(1, len(ink) // 20)
    around = numpy.convolve(ink, numpy.ones(wide), "valid")
    return start + int(around.argmin()) + wide // 2
