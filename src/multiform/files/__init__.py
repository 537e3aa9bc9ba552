"""Model files: one file with arrays and JSON, no code in it, that later versions of multiform go on reading.

:func:`save` and :func:`load` are `multiform.save` and `multiform.load`. What is in a file, and what is promised of it,
is in ``docs/model-files.md``.
"""

from multiform.files._atomic import atomic_path, check_writable, folder_beside
from multiform.files._format import FORMAT_VERSION, ModelFileError
from multiform.files._model_file import describe, is_model_file, load, plain, save

__all__ = [
    "FORMAT_VERSION",
    "ModelFileError",
    "atomic_path",
    "check_writable",
    "describe",
    "folder_beside",
    "is_model_file",
    "load",
    "plain",
    "save",
]
