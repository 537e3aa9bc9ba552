"""Files of every released version load, and answer as they did."""

import numpy as np
import pytest

import multiform
from multiform.files import describe
from tests.files import models
from tests.files.golden import FOLDER, KEPT, asked, file_name

VERSIONS = sorted(path.name for path in FOLDER.iterdir())
# Answers that are others by intent. Loyalty had two chances for one answer, its nominal classifier's and its score.
ONE_CHANCE = {"predict_proba", "predict_log_proba", "decision_function", "loyalty_score", "trust_score"}
CHANGED = {("0.1.0", name): ONE_CHANCE for name in KEPT if name.startswith(("loyalty", "triage", "table"))}


def test_there_are_files_of_the_first_version():
    assert "0.1.0" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", KEPT)
def test_answers_are_those_of_the_version_that_wrote_the_file(name, version):
    folder = FOLDER / version
    path = folder / f"{file_name(name)}.mfm"
    if not path.exists():
        pytest.skip(f"{version} had no such model")
    assert describe(path)["versions"]["multiform"] == version
    found = models.answers(multiform.load(path), asked(name, folder))
    with np.load(folder / f"{file_name(name)}-answers.npz", allow_pickle=False) as expected:
        assert set(expected.files) <= set(found)
        for question in set(expected.files) - CHANGED.get((version, name), set()):
            if expected[question].dtype.kind == "f":  # another BLAS rounds otherwise
                # In single precision by what is lost of sums whose terms are as large as the largest answer.
                largest = np.abs(expected[question][np.isfinite(expected[question])]).max(initial=0)
                rounding = 2 * np.finfo(np.float32).eps * largest if found[question].dtype == np.float32 else 0.0
                np.testing.assert_allclose(found[question], expected[question], rtol=1e-6, atol=max(1e-9, rounding))
            else:
                np.testing.assert_array_equal(found[question], expected[question])
