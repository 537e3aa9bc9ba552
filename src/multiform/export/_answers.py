"""What a classifier says of a sample, as names of values in a graph: class and chances, loyalty, and whether a promise
covers it.

An answer is a pair: the index of the predicted class (n,), and the chances (n, m) in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from multiform._typing import Array
from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.columns import ENRICHED, Categories, Coded, Encodings
from multiform.export._gaps import filled
from multiform.export._graph import Graph, is_double
from multiform.gaps import Gaussian
from multiform.loyalty import LEAD, LEAST_CHANCE, MOST_GAPS, Alterations, LoyaltyClassifier
from multiform.metrics.labels import positions
from multiform.partners import DOUBT, Forest, Partner
from multiform.separators import LARGEST_RESIDUAL
from multiform.triage import TriageClassifier

Answer = tuple[str, str]

# Thresholds are scores of calibration samples, so a repeated sample lies exactly on one; rounding must not reject it.
ROUNDING = 1e-6
FARTHEST_SINGLE = 1e38  # beyond, only the direction of a row counts


# ------------------------------------------------------------------------------------------------------- answers


def _unwrapped(graph: Graph, model: Any, X: Any) -> tuple[Any, Any]:
    """The classifier at the end of a pipeline or a `FrozenEstimator`, and the variable that it reads."""
    while isinstance(model, FrozenEstimator | Pipeline):
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            for _, step in model.steps[:-1]:
                if step not in (None, "passthrough"):
                    X = graph.converted(step, X)[0]
            model = model.steps[-1][1]
    return model, X


def answer(graph: Graph, model: Any, X: Any) -> Answer:
    """What a fitted classifier, ours or any that skl2onnx can convert, answers for the variable X, float or double."""
    model, X = _unwrapped(graph, model, X)
    if isinstance(model, QMSClassifier):
        return _chances(graph, log_scores(graph, model, X, _gaussian_of(model)), model, X)
    if isinstance(model, QMSClassifierCV):
        return _chances(graph, _ensemble_scores(graph, model, X), model, X)
    if isinstance(model, LoyaltyClassifier):
        return judged(graph, model, X)[0]
    if isinstance(model, TriageClassifier):
        return triaged(graph, model, X)[0]
    return _foreign(graph, model, X)


def _gaussian_of(model: Any) -> Gaussian | None:
    """Of which a model takes the expectation where an entry is missing; None where it takes none."""
    if isinstance(model, QMSClassifierCV) and not model.encodings_.knows_gaps:
        return None
    return model._gaussian if model.missing == "expectation" else None


def log_scores(graph: Graph, model: QMSClassifier, X: Any, gaussian: Gaussian | None = None) -> str:
    """``-log f_k(x)`` of one QMS model: shape (n, m)."""
    tiny = float(np.finfo(np.float64 if is_double(X) else np.float32).tiny)
    doubles = graph.cast(X.full_name, np.float64)
    if gaussian is not None:
        doubles, added = filled(graph, doubles, gaussian, model.components_)
    f = _member_values(graph, doubles, model.components_, model.offsets_)
    return _minus_log(graph, f if gaussian is None else graph.node("Add", f, added), tiny)


def _member_values(graph: Graph, X: str, components: Array, offsets: Array) -> str:
    """Definition 3, ``f_k(x) = ||A_k x - b_k||^2``: shape (n, m)."""
    m, q, p = components.shape
    residual = graph.linear(X, components.reshape(m * q, p).T, -offsets.reshape(-1))
    # Of a row so far off that squares would overflow, f is divided by one factor for all classes.
    residual = graph.limited(residual, LARGEST_RESIDUAL)
    squares = graph.node("Reshape", graph.node("Mul", residual, residual), graph.constant([-1, m, q]))
    return graph.total(squares, axis=2)


def _minus_log(graph: Graph, f: str, tiny: float) -> str:
    return graph.node("Neg", graph.node("Log", graph.node("Max", f, graph.constant(tiny))))


def _ensemble_scores(graph: Graph, model: QMSClassifierCV, X: Any) -> str:
    """The ensemble's sum over its models of ``-log f`` times the model's factor, and its partners': shape (n, m).

    The ensemble reads scaled columns in single precision, so they are rounded here as there.
    """
    if model.frame_columns_ is not None:
        raise ValueError(
            "to_onnx cannot export a QMSClassifierCV that reads words in a frame; encode them in a pipeline before it, "
            "e.g. with scikit-learn's OneHotEncoder in a ColumnTransformer, or use multiform.save."
        )
    separators, factors, gaussian = model.separators_, model.factors_, _gaussian_of(model)
    center, scale = separators.scaling.center, separators.scaling.scale
    rows = _encoded(graph, model.encodings_, model.categories_, X)
    if gaussian is not None:
        rows, added = filled(graph, rows, gaussian, separators.in_user_units()[0])
    centred = graph.node("Sub", rows, graph.constant(center[None, :]))
    scaled = graph.node("Div", centred, graph.constant(scale[None, :]))
    columns = graph.cast(graph.cast(graph.limited(scaled, FARTHEST_SINGLE), np.float32), np.float64)
    read = columns if separators.columns is None else graph.columns(columns, separators.columns)
    # All models are stacked as if their separators were those of so many classes.
    f = _member_values(graph, read, separators.coefficients[:, :, :-1], separators.coefficients[:, :, -1])
    if separators.noise is not None:
        f = graph.node("Add", f, graph.constant(separators.noise[None, :]))
    if gaussian is not None:
        f = graph.node("Add", f, added)
    scores = _minus_log(graph, f, float(np.finfo(np.float32).tiny))
    by_model = graph.node("Reshape", scores, graph.constant([-1, len(factors), len(model.classes_)]))
    total = graph.total(graph.node("Mul", by_model, graph.constant(factors[None, :, None])), axis=1)
    if model.partners_:
        rows = graph.clipped(graph.columns(scaled, np.arange(model.encodings_.n_features)), FARTHEST_SINGLE)
        rows = graph.cast(rows, np.float32)
        for partner, factor in zip(model.partners_, model.partner_factors_, strict=True):
            said = graph.node("Mul", _log_chances(graph, partner, rows), graph.constant(factor))
            total = graph.node("Add", total, said)
    return total


def _log_chances(graph: Graph, partner: Partner, rows: str) -> str:
    """The mean over its models of the logarithm of a partner's chances, with its doubt: shape (n, m)."""
    forest = partner.models
    if not isinstance(forest, Forest):
        raise ValueError(
            f"to_onnx can export a QMSClassifierCV whose partners are forests; got {partner.name}. Fit with "
            'partners="trees", "forests" or None.'
        )
    n_models, m = forest.base.shape
    sums = graph.cast(_tree_sums(graph, forest, rows), np.float64)
    if forest.link == "softmax":
        sums = graph.node("Add", sums, graph.constant(forest.base.reshape(1, -1)))
    chances = graph.node("Reshape", sums, graph.constant([-1, n_models, m]))
    if forest.link == "softmax":
        chances = graph.node("Softmax", chances, axis=2)
    if partner.class_weights is not None:
        products = graph.node("Mul", chances, graph.constant(partner.class_weights[None, None, :]))
        chances = graph.node("Div", products, graph.total(products, axis=2, keepdims=True))
    believed = graph.node("Mul", chances, graph.constant(1 - DOUBT))
    said = graph.node("Log", graph.node("Add", believed, graph.constant(DOUBT / m)))
    return graph.node("Div", graph.total(said, axis=1), graph.constant(np.float64(n_models)))


def _tree_sums(graph: Graph, forest: Forest, rows: str) -> str:
    """What all trees add, by one operator, and in single precision; shares of trees where that is meant.

    The shape is (n, number of sums).
    """
    if not len(forest.roots):  # no model has seen two classes
        nothing = graph.cast(graph.constant(np.zeros((1, forest.base.size))), np.float32)
        return graph.node("MatMul", graph.columns(rows, np.zeros(1)), nothing)
    n_nodes, n_trees = len(forest.feature), len(forest.roots)
    sizes = np.diff(np.append(forest.roots, n_nodes))
    tree = np.repeat(np.arange(n_trees), sizes)
    first = np.repeat(forest.roots, sizes)
    leaf = forest.feature < 0
    children = np.where(leaf[:, None], 0, forest.children - first[:, None])
    ends = np.flatnonzero(leaf)
    added = forest.values[forest.children[ends, 0]]
    if forest.link == "mean":
        model = forest.places // forest.base.shape[1]
        added = added / np.bincount(model)[model[tree[ends]], None]
    # A leaf needs a value, be it 0, and most of those of a forest are 0.
    kept = (added != 0) | (np.arange(added.shape[1]) == 0)
    end, place = np.nonzero(kept)
    return graph.node(
        "TreeEnsembleRegressor",
        rows,
        n_targets=forest.base.size,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=(np.arange(n_nodes) - first).tolist(),
        nodes_featureids=np.where(leaf, 0, forest.feature).tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_values=forest.threshold.tolist(),
        nodes_truenodeids=children[:, 0].tolist(),
        nodes_falsenodeids=children[:, 1].tolist(),
        nodes_missing_value_tracks_true=forest.missing_first.astype(int).tolist(),
        target_treeids=tree[ends[end]].tolist(),
        target_nodeids=(ends - first[ends])[end].tolist(),
        target_ids=(forest.places[tree[ends[end]]] + place).tolist(),
        target_weights=added[kept].tolist(),
    )


def _chances(graph: Graph, scores: str, model: Any, X: Any) -> Answer:
    """The best class, and ``p_k = f_k^(-1/T)`` normalised, the softmax of ``-log f / T``."""
    sharpened = graph.node("Div", scores, graph.constant(np.float64(model.temperature_)))
    index, chances = graph.node("ArgMax", scores, axis=1, keepdims=0), graph.node("Softmax", sharpened, axis=1)
    return _refused(graph, X, (index, chances), gaps=_gaussian_of(model) is not None)


def _refused(graph: Graph, X: Any, found: Answer, gaps: bool = False) -> Answer:
    """The answer, but for rows that Python refuses (infinity, or NaN unless `gaps`): NaN chances, the first class."""
    refused = _not_finite(graph, X, gaps)
    index = graph.node("Where", refused, graph.constant(0), found[0])
    return index, _or_nan(graph, graph.upright(refused), found[1])


def _not_finite(graph: Graph, X: Any, gaps: bool = False) -> str:
    """Which rows hold infinity, or NaN unless these are `gaps`: booleans of shape (n,)."""
    doubles = graph.cast(X.full_name, np.float64)
    if gaps:
        doubles = graph.node("Where", graph.node("IsNaN", doubles), graph.constant(0.0), doubles)
    # the difference of such with itself is NaN
    odd = graph.cast(graph.node("IsNaN", graph.node("Sub", doubles, doubles)), np.float64)
    return graph.node("Greater", graph.total(odd, axis=1), graph.constant(np.float64(0)))


def _or_nan(graph: Graph, refused: str, value: str) -> str:
    return graph.node("Where", refused, graph.constant(np.float64(np.nan)), value)


def _foreign(graph: Graph, model: Any, X: Any) -> Answer:
    """Another library's classifier, by its own converter."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    name = type(model).__name__
    if type(model) not in sklearn_operator_name_map or not hasattr(model, "predict_proba"):
        raise ValueError(
            f"to_onnx can export {name} inside one of our classifiers only if skl2onnx knows it and it has "
            "predict_proba; use such a classifier, or export the parts on their own."
        )
    graph.scope.add_options(id(model), {"zipmap": False})
    graph.container.add_options(id(model), {"zipmap": False})
    label, chances = graph.converted(model, X)
    text = np.asarray(model.classes_).dtype.kind in "UO"
    keys = {"keys_strings" if text else "keys_int64s": list(model.classes_)}
    index = graph.node("LabelEncoder", label.full_name, values_int64s=list(range(len(model.classes_))), **keys)
    return graph.flat(index), graph.cast(chances.full_name, np.float64)


# ----------------------------------------------------------------------------------------------------- encodings


def _encoded(graph: Graph, encodings: Encodings, categories: Categories | None, X: Any) -> str:
    """The plain columns, what each transformer makes of them, NaN where these are, and which are told to be missing:
    doubles of shape (n, width).
    """
    plain = graph.cast(X.full_name, np.float64)
    # A float cannot hold 0.1 as a double can, so what is compared with a float is a float.
    precision = np.float64 if is_double(X) else np.float32
    if categories is not None:
        plain = graph.beside(
            *([graph.columns(plain, categories.others)] if len(categories.others) else []),
            *(_of_codes(graph, plain, one, precision) for one in categories.coded if one.width),
        )
    parts = [plain]
    for name, transformer in encodings.made_by:
        if name in ENRICHED:
            for _, part, columns in transformer.transformers_:
                if isinstance(part, OneHotEncoder) and len(columns):
                    parts.append(_one_hot(graph, plain, columns, part, precision))
                elif isinstance(part, SplineTransformer) and len(columns):
                    parts.append(_hinges(graph, plain, columns, part, precision))
        else:
            parts.append(graph.cast(graph.converted(transformer, X)[0].full_name, np.float64))
    if len(encodings.told):
        parts.append(graph.cast(graph.node("IsNaN", graph.columns(plain, encodings.told)), np.float64))
    return graph.beside(*parts)


def _of_codes(graph: Graph, X: str, coded: Coded, precision: Any) -> str:
    """The columns of a category; a code never seen is NaN in all of them, which makes NaN chances."""
    values = coded.values.astype(precision).astype(np.float64)
    code = graph.columns(X, np.array([coded.place]))
    same = graph.cast(graph.node("Equal", code, graph.constant(values[None, :])), np.float64)
    made = graph.node("MatMul", same, graph.constant(coded.block(coded.values)))
    return graph.node("Div", made, graph.total(same, axis=1, keepdims=True))


def _one_hot(graph: Graph, X: str, columns: Array, encoder: OneHotEncoder, precision: Any) -> str:
    """1 where a column has the value of a category; a value never seen is 0 everywhere, and NaN is NaN."""
    repeated = np.repeat(columns, [len(known) for known in encoder.categories_])
    values = np.concatenate(encoder.categories_).astype(precision).astype(np.float64)
    read = graph.columns(X, repeated)
    same = graph.cast(graph.node("Equal", read, graph.constant(values[None, :])), np.float64)
    return graph.node("Where", graph.node("IsNaN", read), read, same)


def _hinges(graph: Graph, X: str, columns: Array, transformer: SplineTransformer, precision: Any) -> str:
    """Splines of degree 1: on piece r of its axis, feature c becomes ``value[c, r] + slope[c, r] (x - origin[c, r])``.

    The piece is found by counting the knots that x has reached.
    """
    if transformer.degree != 1:
        raise ValueError(f"to_onnx can export SplineTransformer of degree 1; got {transformer.degree}.")
    edges, origin, value, slope = _pieces(transformer, precision)
    n_features, n_pieces, n_splines = value.shape
    x = graph.node("Unsqueeze", graph.columns(X, columns), graph.constant([2]))
    reached = graph.cast(graph.node("GreaterOrEqual", x, graph.constant(edges[None])), np.int64)
    first = np.arange(n_features)[None, :] * n_pieces
    piece = graph.node("Add", graph.total(reached, axis=2), graph.constant(first))

    def of_piece(table: Array) -> str:
        return graph.node("Gather", graph.constant(table.reshape(n_features * n_pieces, -1)), piece)

    along = graph.node("Mul", graph.node("Sub", x, of_piece(origin)), of_piece(slope))
    whole = graph.node("Add", along, of_piece(value))
    return graph.node("Reshape", whole, graph.constant([-1, n_features * n_splines]))


def _pieces(transformer: SplineTransformer, precision: Any) -> tuple[Array, Array, Array, Array]:
    """Where the pieces of each feature begin, and the lines on them: edges, origin, value and slope.

    The lines are read off the transformer itself, at two points inside each piece, and not derived from its knots:
    scikit-learn 1.9 and older continue the features after the first from their second knot on instead of the first.
    """
    knots = [np.unique(spline.t[1:-1]) for spline in transformer.bsplines_]  # the outermost two only pad
    n_edges = max(map(len, knots))
    # Features with fewer knots have their last piece cut further, which changes nothing.
    step = np.array([[np.ptp(own) or 1.0] for own in knots])
    more = [by * (1 + np.arange(n_edges - len(own))) for own, by in zip(knots, step, strict=True)]
    edges = np.stack([np.append(own, own[-1] + further) for own, further in zip(knots, more, strict=True)])
    begin, end = np.hstack([edges[:, :1] - step, edges]), np.hstack([edges, edges[:, -1:] + step])
    origin = begin + (end - begin) / 3
    second = begin + (end - begin) * 2 / 3
    value, value_second, at_edge = (_transformed(transformer, points) for points in (origin, second, edges))
    slope = (value_second - value) / (second - origin)[..., None]
    # Equal knots make a jump; the knot itself belongs to the piece that has its value.
    from_left = value[:, :-1] + slope[:, :-1] * (edges - origin[:, :-1])[..., None]
    from_right = value[:, 1:] + slope[:, 1:] * (edges - origin[:, 1:])[..., None]
    left = np.abs(at_edge - from_left).max(axis=2) < np.abs(at_edge - from_right).max(axis=2)
    reached = edges.astype(precision)
    reached = np.where(left, np.nextafter(reached, precision(np.inf)), reached)
    return reached.astype(np.float64), origin, value, slope


def _transformed(transformer: SplineTransformer, points: Array) -> Array:
    """What becomes of the points (n_features, n_points): shape (n_features, n_points, n_splines)."""
    found = transformer.transform(points.T)
    return np.asarray(found).reshape(points.shape[1], len(points), -1).transpose(1, 0, 2)


# ------------------------------------------------------------------------------------------------------- loyalty


def judged(graph: Graph, model: LoyaltyClassifier, X: Any) -> tuple[Answer, str, str]:
    """The answer, its loyalty level (n,) and the chance that it is right (n,), from every model."""
    members = [_member(graph, member, X) for member in (model.estimator_, *model.altered_estimators_)]
    nominal, nominal_scores = members[0]
    m = len(model.classes_)
    predicted = graph.beside(*(graph.upright(index) for index, _ in members))
    n_models = graph.constant(float(len(members)))
    mean = graph.node("Div", graph.node("Sum", *(scores for _, scores in members)), n_models)
    level = _level(graph, model, predicted)
    # The share of all models that predict the nominal's class.
    same = graph.cast(graph.node("Equal", predicted, graph.upright(nominal)), np.float64)
    agreement = graph.node("Div", graph.total(same, 1, keepdims=True), n_models)

    # What the logistic regression of "the answer is right" reads; see `Chances`.
    own_class = graph.one_hot(nominal, m)
    indicator = graph.cast(own_class, np.float64)
    own = graph.total(graph.node("Mul", mean, indicator), 1, keepdims=True)
    gaps = graph.node("Sub", own, mean)
    far = graph.node("Where", own_class, graph.constant(np.float64(np.inf)), gaps)  # its own class is no rival
    nearest = graph.extreme(far, min(MOST_GAPS, m - 1), largest=False)
    first = graph.columns(nearest, np.array([0]))
    levels = graph.cast(graph.one_hot(level, len(model.levels_)), np.float64)
    inputs = graph.beside(nearest, agreement, levels, indicator, graph.node("Mul", indicator, first))
    score = model._get_state()["score"]  # the plain values that a model file has, too
    slopes = score["coefficients"] / score["scale"]
    offset = score["intercept"] - slopes @ score["mean"]
    right = graph.node("Sigmoid", graph.linear(inputs, slopes[:, None], offset))

    # The other classes share the rest; the answer's chance is the largest.
    sharpened = graph.node("Div", nominal_scores, graph.constant(np.float64(score["temperature"])))
    rivals = graph.node("Where", own_class, graph.constant(np.float64(-np.inf)), sharpened)
    shares = graph.node("Softmax", rivals, axis=1)
    most = graph.extreme(shares, 1, largest=True)
    one = graph.constant(np.float64(1))
    least = graph.node("Div", most, graph.node("Add", one, most))
    right = graph.node("Max", right, graph.node("Mul", graph.constant(np.float64(LEAD)), least))
    rest = graph.node("Mul", graph.node("Sub", one, right), shares)
    found, score_of_right = (nominal, graph.node("Where", own_class, right, rest)), graph.flat(right)
    inner, read = _unwrapped(graph, model.estimator_, X)
    if not isinstance(inner, QMSClassifier):
        return found, level, score_of_right  # what X may be is the other classifier's own
    refused = _not_finite(graph, read)
    level = graph.node("Where", refused, graph.constant(len(model.levels_) - 1), level)  # the least sure
    return _refused(graph, read, found), level, _or_nan(graph, refused, score_of_right)


def _member(graph: Graph, model: Any, X: Any) -> tuple[str, str]:
    """Predicted class indices (n,), and scores that are higher for a likelier class (n, m)."""
    model, X = _unwrapped(graph, model, X)
    if isinstance(model, QMSClassifier):
        scores = log_scores(graph, model, X)
    elif isinstance(model, LinearClassifierMixin):
        coefficients, intercept = model.coef_.T, model.intercept_
        if len(model.classes_) == 2:  # d becomes -d/2, d/2
            coefficients, intercept = coefficients * [[-0.5, 0.5]], intercept * np.array([-0.5, 0.5])
        scores = graph.linear(graph.cast(X.full_name, np.float64), coefficients, intercept)
    elif hasattr(model, "decision_function"):
        raise ValueError(
            f"to_onnx can export a LoyaltyClassifier around QMSClassifier, linear classifiers and classifiers without "
            f"decision_function (forests, trees, naive Bayes); got {type(model).__name__}."
        )
    else:
        index, chances = answer(graph, model, X)
        return index, graph.node("Log", graph.node("Max", chances, graph.constant(np.float64(LEAST_CHANCE))))
    return graph.node("ArgMax", scores, axis=1, keepdims=0), scores


def _level(graph: Graph, model: LoyaltyClassifier, predicted: str) -> str:
    """Definition 6, and its refinement by ladders: the level of each sample, 0 the surest."""
    alterations = Alterations.of(model.beta, model.gamma, len(model.classes_))
    n_betas, n_gammas, m = len(alterations.beta), len(alterations.gamma), len(model.classes_)
    altered = np.array([altered for _, altered in alterations])
    answers = graph.columns(predicted, np.arange(1, 1 + len(altered)))
    claimed = graph.cast(graph.node("Equal", answers, graph.constant(altered[None, :])), np.int64)
    claims = graph.total(graph.node("Reshape", claimed, graph.constant([-1, n_betas + n_gammas, m])), axis=2)
    # The first rung that holds decides: strong where one class claims a sample, weak where three do, else normal.
    rungs = [graph.node("Equal", graph.columns(claims, np.arange(n_betas)), graph.constant(1))]
    if n_gammas:
        pushed = graph.columns(claims, n_betas + np.arange(n_gammas))
        rungs.append(graph.node("GreaterOrEqual", pushed, graph.constant(3)))
    rungs.append(graph.node("GreaterOrEqual", graph.columns(claims, np.array([0])), graph.constant(0)))
    first = graph.node("ArgMax", graph.cast(graph.beside(*rungs), np.float64), axis=1, keepdims=0)
    levels = [*range(n_betas), *range(n_betas + n_gammas, n_betas, -1), n_betas]
    return graph.node("Gather", graph.constant(levels), first)


# -------------------------------------------------------------------------------------------------------- triage


def triaged(graph: Graph, model: TriageClassifier, X: Any) -> tuple[Answer, str, str]:
    """The estimator's answer where accepted, else the fallback's; whether it is (n,), and the trust in it (n,)."""
    if model.fallback_ is None and model.defer_label is not None:
        raise ValueError(
            "to_onnx cannot export the defer_label of TriageClassifier, as a label of ONNX has one type; set "
            "defer_label=None and read the output 'accepted'."
        )
    if model.by is not None:
        raise ValueError(
            f"to_onnx cannot export by={model.by!r} of TriageClassifier, whose thresholds depend on more than the "
            "answer; export its estimator_, and compare the trust with thresholds_ yourself."
        )
    own, trust = _trusted(graph, model, X)
    thresholds = model.thresholds_.copy()
    finite = np.isfinite(thresholds)
    thresholds[finite] -= ROUNDING * np.abs(thresholds[finite])
    limit = graph.node("Gather", graph.constant(thresholds), own[0])
    accepted = graph.node("GreaterOrEqual", trust, limit)
    # +inf means "accept nothing", even where a score is infinite.
    accepted = graph.node("And", accepted, graph.node("Less", limit, graph.constant(np.float64(np.inf))))
    index, chances = _among(graph, own, model.estimator_.classes_, model.classes_)
    if model.fallback_ is not None:
        other = _among(graph, answer(graph, model.fallback_, X), model.fallback_.classes_, model.classes_)
        index = graph.node("Where", accepted, index, other[0])
        chances = graph.node("Where", graph.upright(accepted), chances, other[1])
    return (index, chances), accepted, trust


def _trusted(graph: Graph, model: TriageClassifier, X: Any) -> tuple[Answer, str]:
    """The estimator's answer and the trust in it, by the method that `score_method` means."""
    estimator, X = _unwrapped(graph, model.estimator_, X)
    method = model.score_method
    if method == "auto":
        # A pipeline does not pass loyalty_score on, so "auto" has meant its chances.
        method = "loyalty_score" if hasattr(model.estimator_, "loyalty_score") else "predict_proba"
    if method == "loyalty_score" and isinstance(estimator, LoyaltyClassifier):
        own, _, score = judged(graph, estimator, X)
        return own, score
    if method == "predict_proba":
        own = answer(graph, estimator, X)
        return own, graph.flat(graph.extreme(own[1], 1, largest=True))
    raise ValueError(
        "to_onnx can export a TriageClassifier whose trust is 'loyalty_score' or 'predict_proba'; got "
        f"score_method={model.score_method!r} around {type(estimator).__name__}."
    )


def _among(graph: Graph, found: Answer, known: Any, classes: Any) -> Answer:
    """The same answer in terms of all classes."""
    if np.array_equal(known, classes):
        return found
    place = positions(known, classes)
    index = graph.node("Gather", graph.constant(place), found[0])
    return index, graph.node("MatMul", found[1], graph.constant(np.eye(len(classes))[place]))
