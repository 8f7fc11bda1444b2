"""Ocellus: small vision-language models inside one memory budget.

    import ocellus

    engine = ocellus.Engine(budget="512M", images=8)   # the bundled model; engine.plan says where every byte goes
    session = engine.session()
    answer = session.ask(picture, "How many circles are there?")   # a path, an array, a PIL image, bytes
    print(answer.text, answer.stats.first_token_ms)

    for piece in session.chat("Which colours?", stream=True):
        print(piece, end="")

Objects close themselves when nothing refers to them; `with` closes them sooner. Everything that fails raises `Error`,
with a status and a sentence that says what to change."""
from __future__ import annotations

import os as _os
import warnings as _warnings

from ._abi import (Advice, AnswerStats, EngineStats, GpuFacts, ImageFacts, LibraryItem, LibraryReport, LibraryUse,
                   ModelFacts, PlanRow)
from ._answer import Answer, AskOptions, Place, Stream, Token
from ._engine import Engine, plan
from ._hub import pull
from ._image_library import Library
from ._model import Model, ModelFiles, gpus, published_models
from ._native import Error, Status, lib as _lib
from ._pictures import Clip, Entry, Frame, Picture
from ._plan import Plan
from ._session import Choice, Session

__version__: str = _lib.ocellus_version().decode()
built_with_cuda: bool = bool(_lib.ocellus_built_with_cuda())
"""Whether this package can use GPUs."""

# Another company's client has the name `ocellus` on PyPI: both packages lie in the folder `ocellus`.
if any(name.startswith("ocellus-") and name.endswith(".dist-info")
       for name in _os.listdir(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))))):
    _warnings.warn("the distributions 'ocellus' and 'ocellus-vlm' are both installed and overwrite each other's files: "
                   "pip uninstall ocellus ocellus-vlm, then pip install the one that you want", stacklevel=2)

__all__ = ["Advice", "Answer", "AnswerStats", "AskOptions", "Choice", "Clip", "Engine", "EngineStats", "Entry", "Error",
           "Frame", "GpuFacts", "ImageFacts", "Library", "LibraryItem", "LibraryReport", "LibraryUse", "Model",
           "ModelFacts", "ModelFiles", "Picture", "Place", "Plan", "PlanRow", "Session", "Status", "Stream", "Token",
           "built_with_cuda", "gpus", "plan", "published_models", "pull"]
