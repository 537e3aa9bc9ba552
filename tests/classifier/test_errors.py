"""One helpful sentence each, and nothing half-fitted."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0], [0.5, 0.5], [2.5, 2.5]])
Y = np.array([0, 0, 1, 1, 0, 1])


def with_value(value):
    changed = X.copy()
    changed[2, 1] = value
    return changed


BAD_DATA = [
    ((with_value(np.nan), Y), {}, "Input X contains NaN"),
    ((with_value(np.inf), Y), {}, "Input X contains infinity"),
    ((with_value(np.nan).astype(np.float32), Y), {}, "Input X contains NaN"),
    ((X, np.zeros(6)), {}, "QMSClassifier needs samples of at least 2 classes in y; got 1 class"),
    ((X, Y + 0.5), {}, "Unknown label type: continuous"),
    ((X, [None] * 6), {}, "Unknown label type|None"),
    ((X, Y[:4]), {}, "inconsistent numbers of samples"),
    ((X[:0], Y[:0]), {}, "0 sample"),
    ((X[:, :0], Y), {}, "0 feature"),
    ((X[0], Y), {}, "Expected 2D array, got 1D array"),
    ((X + 1j, Y), {}, "Complex data not supported"),
    ((X, Y), {"sample_weight": np.zeros(6)}, "[Ss]ample.weight.* at least one"),
    ((X, Y), {"sample_weight": -np.ones(6)}, "Negative values in data passed to `sample_weight`"),
    ((X, Y), {"sample_weight": np.full(6, np.nan)}, "sample_weight contains NaN"),
    ((X, Y), {"sample_weight": np.ones(5)}, r"sample_weight.shape == \(5,\), expected \(6,\)"),
    ((X, Y), {"sample_weight": (Y == 0) * 1.0}, r"got 1 class, .*0.* \(with a positive weight\)"),
    ((X, Y), {"X_val": X}, "X_val and y_val of QMSClassifier.fit must be given together; got only X_val"),
    ((X, Y), {"y_val": Y}, "must be given together; got only y_val"),
    ((X, Y), {"X_val": X, "y_val": Y}, "set early_stopping=True, or leave them out"),
]
BAD_PARAMETERS = [
    ({"n_components": 0}, "'n_components' parameter of QMSClassifier must be an int in the range"),
    ({"n_components": 1.5}, "'n_components' parameter of QMSClassifier"),
    ({"alpha": 1.0}, "'alpha' parameter of QMSClassifier must be a float in the range"),
    ({"alpha": -0.1}, "'alpha' parameter of QMSClassifier"),
    ({"noise": -1}, "'noise' parameter of QMSClassifier"),
    ({"solver": "newton"}, "'solver' parameter of QMSClassifier must be a str among"),
    ({"max_iter": 0}, "'max_iter' parameter of QMSClassifier"),
    ({"batch_size": 0}, "'batch_size' parameter of QMSClassifier"),
    ({"learning_rate": 0.0}, "'learning_rate' parameter of QMSClassifier"),
    ({"missing": "median"}, "'missing' parameter of QMSClassifier"),
    ({"scaling": "robust"}, "'scaling' parameter of QMSClassifier"),
    ({"validation_fraction": 1.0}, "'validation_fraction' parameter of QMSClassifier"),
    ({"n_iter_no_change": 0}, "'n_iter_no_change' parameter of QMSClassifier"),
    ({"tol": -1.0}, "'tol' parameter of QMSClassifier"),
    ({"n_jobs": 0}, "n_jobs must be None or an integer that is not 0; got 0"),
    ({"n_jobs": 1.5}, "'n_jobs' parameter of QMSClassifier"),
    ({"class_weight": "even"}, "'class_weight' parameter of QMSClassifier"),
    ({"class_weight": {0: -1, 1: 1}}, "class_weight .* finite.* not negative"),
    ({"class_weight": {0: 0, 1: 0}}, "class_weight .* finite.* not negative"),
    ({"random_state": "today"}, "'random_state' parameter of QMSClassifier"),
]


def fitted_state(model):
    return {name: copy.deepcopy(value) for name, value in vars(model).items() if name.endswith("_")}


def assert_same_state(before, after):
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_equal(after[name], value)


@pytest.mark.parametrize(("arguments", "keywords", "message"), BAD_DATA)
@pytest.mark.parametrize("fitted", [False, True])
def test_bad_data(arguments, keywords, message, fitted):
    model = QMSClassifier(max_iter=2, missing="refuse", random_state=0)
    if fitted:
        model.fit(np.hstack([X, X]), Y)
    before = fitted_state(model)
    with pytest.raises(ValueError, match=message):
        model.fit(*arguments, **keywords)
    assert_same_state(before, fitted_state(model))


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS)
def test_bad_parameters(parameters, message):
    model = QMSClassifier(max_iter=2, random_state=0).fit(X, Y)
    before = fitted_state(model)
    model.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(np.hstack([X, X]), Y)
    assert_same_state(before, fitted_state(model))


def test_unknown_parameter():
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        QMSClassifier(depth=3)
    with pytest.raises(ValueError, match="Invalid parameter 'depth' for estimator QMSClassifier"):
        QMSClassifier().set_params(depth=3)


def test_class_weight_of_an_unknown_class():
    with pytest.raises(ValueError, match="classes"):
        QMSClassifier(class_weight={0: 1, 7: 2}).fit(X, Y)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "member_values"]
)
def test_predicting(method):
    with pytest.raises(NotFittedError, match="This QMSClassifier instance is not fitted yet"):
        getattr(QMSClassifier(), method)(X)
    model = QMSClassifier(max_iter=2, missing="refuse", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="X has 1 features, but QMSClassifier is expecting 2 features"):
        getattr(model, method)(X[:, :1])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        getattr(model, method)(with_value(np.nan))
    with pytest.raises(ValueError, match="Input X contains infinity"):
        getattr(model, method)(with_value(np.inf).astype(np.float32))
    with pytest.raises(ValueError, match="Expected 2D array"):
        getattr(model, method)(X[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 1])
def test_what_is_not_finite_is_seen_in_any_column(column, value):
    """float32 is looked at after the fact; a column that does not vary has no weight, and still tells."""
    constant = np.ones((6, 1))
    rows = np.hstack([X[:, :1], constant]).astype(np.float32)
    model = QMSClassifier(max_iter=2, missing="refuse", random_state=0).fit(rows, Y)
    new = np.ones((100, 2), np.float32)
    new[77, column] = value
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        model.predict(new)


def test_numbers_that_are_large_are_no_error():
    model = QMSClassifier(max_iter=2, random_state=0).fit(X.astype(np.float32), Y)
    assert model.predict(np.full((1, 2), 1e30, np.float32)).shape == (1,)


def test_validation_data_that_do_not_fit():
    model = QMSClassifier(early_stopping=True, max_iter=2, random_state=0)
    with pytest.raises(ValueError, match="y_val of QMSClassifier holds a class that y does not have"):
        model.fit(X, Y, X_val=X, y_val=Y + 5)
    with pytest.raises(ValueError, match="X has 1 features"):
        model.fit(X, Y, X_val=X[:, :1], y_val=Y)
    with pytest.raises(ValueError, match="A class has no sample left after the validation split"):
        model.fit(X, np.arange(6))
    assert fitted_state(model) == {}


def test_an_error_in_the_middle_of_a_fit_changes_nothing(monkeypatch):
    """Whatever breaks after validation: the fitted attributes are the old ones."""
    model = QMSClassifier(max_iter=2, random_state=0).fit(X, Y)
    before = fitted_state(model)

    def broken(*args, **kwargs):
        raise MemoryError("no room")

    monkeypatch.setattr("multiform.training.solve", broken)
    with pytest.raises(MemoryError, match="no room"):
        model.fit(np.hstack([X, X]), np.array(list("aabbab")))
    assert_same_state(before, fitted_state(model))
    np.testing.assert_array_equal(model.predict(X), Y)


@pytest.mark.parametrize("build", [QMSClassifier, QMSClassifierCV, LoyaltyClassifier])
def test_text_in_x_is_said_with_what_to_do(build):
    X = pd.DataFrame({"age": [30.0, 40.0, 50.0, 60.0], "town": ["Oslo", "Bergen", "Oslo", "Bergen"]})
    with pytest.raises(ValueError, match=r"must hold numbers, but has the text 'Oslo'.*OneHotEncoder.*TableClassifier"):
        build().fit(X, [0, 1, 0, 1])
    fitted = QMSClassifier().fit([[0.0, 1.0], [1.0, 0.0]] * 4, [0, 1] * 4)
    with pytest.raises(ValueError, match="must hold numbers, but has the text 'a'"):
        fitted.predict(np.array([["a", "b"]]))
