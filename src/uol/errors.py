"""Errors that a user can cause: one clear line each, with what to do about it."""

from __future__ import annotations


class UolError(Exception):
    """The work failed: a file is damaged, the data cannot be used. Commands exit with 1.

    >>> UolError("scores.csv: damaged").exit_code
    1
    """

    exit_code = 1


class CallError(UolError):
    """The call was wrong: a missing path, an unknown name, a misspelt setting. Commands exit with 2.

    >>> CallError("photos/: no such folder").exit_code
    2
    """

    exit_code = 2


OF_TRAINING = frozenset({"lightning", "timm", "torch", "torchvision"})  # packages of the extra `train`


def counted(number: int, noun: str) -> str:
    """A number with its noun, which has an s unless the number is 1: "1 image", "2 images".

    >>> counted(1, "image"), counted(2, "image")
    ('1 image', '2 images')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def install(extra: str) -> str:
    """What installs an extra where uol is installed, from a clone too."""
    return f"pip install 'uol[{extra}]'"


class MissingTorchError(UolError):
    """Something requires torch, which the base install does without."""

    def __init__(self, what: str, extra: str = "train", instead: str = "") -> None:
        super().__init__(f"{what} needs torch: {install(extra)}{instead}")


class StoppedError(UolError):
    """Ctrl-C, in a command that can say how far it came."""

    exit_code = 130


class ImageError(UolError):
    """One image cannot be decoded or shows no face; a run over many images names it and goes on.

    >>> isinstance(ImageError("a.jpg: no face found"), UolError)
    True
    """
