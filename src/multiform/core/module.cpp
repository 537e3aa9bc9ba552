// What Python sees of the core. Arrays in, arrays out, in place; nothing here prints or keeps a thread.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "adam.hpp"
#include "calibration.hpp"
#include "cpm.hpp"
#include "sparse_adam.hpp"
#include "starts.hpp"

namespace nb = nanobind;
using namespace multiform;

template <typename Value, int Dimensions>
using Array = nb::ndarray<Value, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
template <typename Value>
using Strided = nb::ndarray<const Value, nb::ndim<2>, nb::device::cpu>;

namespace {

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const Kernels* choose_kernels(const char* name) {
    const Kernels* kernels = std::string_view(name) == "auto" ? best_kernels() : kernels_named(name);
    if (kernels == nullptr)
        throw nb::value_error((std::string("this machine has no kernels named '") + name + "'").c_str());
    return kernels;
}

// X as the caller holds it, with what is needed to read a row; keeps the arrays alive.
struct RowsView {
    Rows rows;
    const Kernels* kernels;
    nb::object values, indptr, indices, center, inverse_scale;

    void set_scaling(Array<const float, 1> new_center, Array<const float, 1> new_inverse) {
        if (static_cast<int64_t>(new_center.size()) != rows.n_columns ||
            static_cast<int64_t>(new_inverse.size()) != rows.n_columns)
            throw nb::value_error("center and inverse_scale need one value per column");
        rows.center = new_center.data();
        rows.inverse_scale = new_inverse.data();
        center = nb::cast(new_center);
        inverse_scale = nb::cast(new_inverse);
    }
};

RowsView dense_rows(nb::object values, const char* kernel) {
    RowsView view;
    view.kernels = choose_kernels(kernel);
    const auto fill = [&](auto array, RowKind kind) {
        const bool by_column = array.stride(1) != 1 && array.shape(1) > 1;
        if (by_column && array.stride(0) != 1 && array.shape(0) > 1)
            throw nb::value_error("rows, or columns, must be contiguous");
        view.rows.kind = kind;
        view.rows.values = array.data();
        view.rows.n_rows = static_cast<int64_t>(array.shape(0));
        view.rows.n_columns = static_cast<int64_t>(array.shape(1));
        view.rows.row_stride = by_column ? 1 : array.stride(0);
        view.rows.column_stride = by_column ? array.stride(1) : 1;
        view.values = nb::cast(array);
    };
    Strided<float> floats;
    Strided<uint8_t> bytes;
    if (nb::try_cast(values, floats, false))
        fill(floats, RowKind::float32);
    else if (nb::try_cast(values, bytes, false))
        fill(bytes, RowKind::uint8);
    else
        throw nb::type_error("rows must be a float32 or uint8 array");
    return view;
}

RowsView sparse_rows(Array<const float, 1> data, Array<const int64_t, 1> indptr, Array<const int32_t, 1> indices,
                     int64_t n_columns, const char* kernel) {
    RowsView view;
    view.kernels = choose_kernels(kernel);
    view.rows.kind = RowKind::csr;
    view.rows.values = data.data();
    view.rows.indptr = indptr.data();
    view.rows.indices = indices.data();
    view.rows.n_rows = static_cast<int64_t>(indptr.size()) - 1;
    view.rows.n_columns = n_columns;
    view.values = nb::cast(data);
    view.indptr = nb::cast(indptr);
    view.indices = nb::cast(indices);
    return view;
}

Sgemm sgemm_of(nb::capsule capsule) {
    void* pointer = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
    if (pointer == nullptr) throw nb::python_error();
    return reinterpret_cast<Sgemm>(pointer);
}

struct ProblemView {
    Problem problem;
    nb::object rows, target;
};

ProblemView make_problem(nb::object rows, Array<const int32_t, 1> target, int64_t n_classes, nb::capsule sgemm) {
    const auto& view = nb::cast<const RowsView&>(rows);
    if (static_cast<int64_t>(target.size()) != view.rows.n_rows) throw nb::value_error("one target per row");
    for (size_t i = 0; i < target.size(); ++i)
        if (target(i) < 0 || target(i) >= n_classes) throw nb::value_error("a target is out of range");
    if (view.rows.center == nullptr) throw nb::value_error("the rows have no scaling yet");
    if (view.rows.by_column()) throw nb::value_error("rows must be contiguous");
    return {{view.rows, target.data(), n_classes, view.kernels, sgemm_of(sgemm)}, rows, nb::cast(target)};
}

// The part of a member that both solvers know, checked once; keeps the arrays alive.
struct MemberArrays {
    Member member;
    std::vector<nb::object> keep;
};

MemberArrays make_member(const ProblemView& problem, Array<float, 3> weights,
                         std::optional<Array<const int32_t, 1>> columns,
                         std::optional<Array<const float, 1>> sample_weight, Array<const float, 1> class_weight,
                         float alpha, float noise, uint64_t seed) {
    const int64_t selected = columns ? static_cast<int64_t>(columns->size()) : problem.problem.rows.n_columns;
    if (static_cast<int64_t>(weights.shape(0)) != problem.problem.n_classes ||
        static_cast<int64_t>(weights.shape(2)) != selected + 1)
        throw nb::value_error("weights must have the shape (classes, components, features + 1)");
    if (static_cast<int64_t>(class_weight.size()) != problem.problem.n_classes)
        throw nb::value_error("one class weight per class");
    if (sample_weight && static_cast<int64_t>(sample_weight->size()) != problem.problem.rows.n_rows)
        throw nb::value_error("one sample weight per row");
    if (columns)
        for (size_t c = 0; c < columns->size(); ++c)
            if ((*columns)(c) < 0 || (*columns)(c) >= problem.problem.rows.n_columns)
                throw nb::value_error("a selected column is out of range");
    MemberArrays arrays;
    arrays.member = {static_cast<int64_t>(weights.shape(1)),
                     selected,
                     columns ? columns->data() : nullptr,
                     sample_weight ? sample_weight->data() : nullptr,
                     class_weight.data(),
                     alpha,
                     noise * noise,
                     seed,
                     weights.data()};
    arrays.keep = {nb::cast(weights), nb::cast(class_weight)};
    if (columns) arrays.keep.push_back(nb::cast(*columns));
    if (sample_weight) arrays.keep.push_back(nb::cast(*sample_weight));
    return arrays;
}

template <typename Solver>
struct Held {
    std::unique_ptr<Solver> solver;
    std::vector<nb::object> keep;
};
using HeldAdam = Held<AdamMember>;
using HeldCpm = Held<CpmMember>;

// A batch as Python lists it. Not by an argument of that type: nanobind's conversion may not fail for lack of memory.
template <typename Solver>
std::vector<Solver*> listed(const nb::list& members) {
    std::vector<Solver*> batch;
    batch.reserve(members.size());
    for (nb::handle member : members) batch.push_back(nb::cast<Held<Solver>&>(member).solver.get());
    return batch;
}

// As many members side by side as share out evenly over the threads; the rest one after the other, each on the whole
// team, or side by side as well where a member is too small to be `shared`. `advance(member, team, deadline)` goes on
// with a member until it is done or the deadline is past.
template <typename Solver, typename Advance>
void run_batch(const std::vector<Solver*>& members, int n_threads, bool shared, double seconds, Advance&& advance) {
    nb::gil_scoped_release release;
    const double deadline = seconds_now() + seconds;
    Team team(n_threads);
    const auto n_members = static_cast<int64_t>(members.size());
    const int64_t uneven = shared ? n_members % team.size() : 0;
    const int64_t side_by_side = team.size() > 1 ? n_members - uneven : 0;
    team.each(side_by_side, [&](int64_t index, int) {
        Team alone(1);
        if (seconds_now() < deadline || index < team.size()) advance(*members[index], alone, deadline);
    });
    for (int64_t index = side_by_side; index < n_members; ++index)
        if (seconds_now() < deadline || index == 0) advance(*members[index], team, deadline);
}

// f of every row by every separator. Separators go in groups whose residuals of a tile stay in the second cache.
void member_values(const RowsView& view, Array<const float, 3> weights, std::optional<Array<const int32_t, 1>> columns,
                   nb::capsule capsule, int n_threads, Array<float, 2> out) {
    constexpr int64_t kTileRows = 256, kGroupOutputs = 256;
    const Sgemm sgemm = sgemm_of(capsule);
    const Rows& rows = view.rows;
    const int64_t m = static_cast<int64_t>(weights.shape(0)), q = static_cast<int64_t>(weights.shape(1));
    const int64_t width = static_cast<int64_t>(weights.shape(2)), stride = padded(width), n = rows.n_rows;
    const int64_t selected = columns ? static_cast<int64_t>(columns->size()) : rows.n_columns;
    if (width != selected + 1 || static_cast<int64_t>(out.shape(0)) != n || static_cast<int64_t>(out.shape(1)) != m)
        throw nb::value_error("member_values: shapes do not fit");
    const float* w = weights.data();
    const int32_t* chosen = columns ? columns->data() : nullptr;
    float* target = out.data();
    nb::gil_scoped_release release;
    Team team(n_threads);
    const int64_t group = std::max<int64_t>(1, std::min(m, kGroupOutputs / std::max<int64_t>(q, 1)));
    const int64_t n_groups = (m + group - 1) / group, outputs = padded(group * q);
    std::vector<AlignedVector<float>> laid_out(static_cast<size_t>(n_groups));
    team.each(n_groups, [&](int64_t g, int) {
        by_feature(w + g * group * q * width, std::min(group, m - g * group) * q, width, laid_out[g]);
    });
    AlignedVector<float> x(static_cast<size_t>(team.size() * kTileRows * stride), 0.0f);
    AlignedVector<float> z(static_cast<size_t>(team.size() * kTileRows * outputs), 0.0f);
    std::vector<float> f(static_cast<size_t>(team.size() * kTileRows * group));
    std::vector<int32_t> samples(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) samples[i] = static_cast<int32_t>(i);
    team.each((n + kTileRows - 1) / kTileRows, [&](int64_t tile, int thread) {
        const int64_t first = tile * kTileRows, count = std::min(kTileRows, n - first);
        float* tile_x = x.data() + thread * kTileRows * stride;
        float* tile_z = z.data() + thread * kTileRows * outputs;
        float* tile_f = f.data() + thread * kTileRows * group;
        view.kernels->gather(rows, {samples.data() + first, count, chosen, selected, 0, width, tile_x, stride});
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t begin = g * group, size = std::min(group, m - begin), own = padded(size * q);
            view.kernels->residuals({sgemm, tile_x, stride, count, width, laid_out[g].data(), own, tile_z});
            view.kernels->member_values(tile_z, own, count, size, q, tile_f);
            for (int64_t i = 0; i < count; ++i) std::copy_n(tile_f + i * size, size, target + (first + i) * m + begin);
        }
    });
}

// The same of sparse rows, from their entries and from the columns that they have.
void sparse_member_values(const RowsView& view, Array<const float, 3> weights,
                          std::optional<Array<const int32_t, 1>> columns, int n_threads, Array<float, 2> out) {
    constexpr int64_t kTileRows = 64;
    const int64_t m = static_cast<int64_t>(weights.shape(0)), q = static_cast<int64_t>(weights.shape(1));
    const int64_t width = static_cast<int64_t>(weights.shape(2)), n = view.rows.n_rows, outputs = padded(m * q);
    const int64_t selected = columns ? static_cast<int64_t>(columns->size()) : view.rows.n_columns;
    if (width != selected + 1 || static_cast<int64_t>(out.shape(0)) != n || static_cast<int64_t>(out.shape(1)) != m)
        throw nb::value_error("member_values: shapes do not fit");
    const float* w = weights.data();
    const RowEntries entries(view.rows, columns ? columns->data() : nullptr, selected);
    float* target = out.data();
    nb::gil_scoped_release release;
    std::vector<int64_t> start{0};
    std::vector<int32_t> index, slot(static_cast<size_t>(selected), -1), used;
    std::vector<float> value;
    for (int64_t i = 0; i < n; ++i) {
        entries.read(i, index, value);
        start.push_back(static_cast<int64_t>(index.size()));
    }
    for (int32_t& feature : index) {
        if (slot[feature] < 0) {
            slot[feature] = static_cast<int32_t>(used.size());
            used.push_back(feature);
        }
        feature = slot[feature];
    }
    Team team(n_threads);
    std::vector<float> laid_out(used.size() * static_cast<size_t>(outputs), 0.0f);
    team.each(m * q, [&](int64_t o, int) {
        for (size_t at = 0; at < used.size(); ++at) laid_out[at * outputs + o] = w[o * width + used[at]];
    });
    std::vector<float> z(static_cast<size_t>(team.size() * outputs));
    team.each((n + kTileRows - 1) / kTileRows, [&](int64_t tile, int thread) {
        float* residual = z.data() + thread * outputs;
        for (int64_t i = tile * kTileRows; i < std::min(n, (tile + 1) * kTileRows); ++i) {
            view.kernels->sum_rows({index.data() + start[i], value.data() + start[i], start[i + 1] - start[i],
                                    laid_out.data(), outputs, residual});
            for (int64_t o = 0; o < m * q; ++o) residual[o] -= w[o * width + selected];
            view.kernels->member_values(residual, outputs, 1, m, q, target + i * m);
        }
    });
}

// Mean, variance, least and most value of each column; dense rows only.
void column_moments(const RowsView& view, int n_threads, Array<double, 1> mean, Array<double, 1> variance,
                    Array<float, 1> least, Array<float, 1> most) {
    constexpr int64_t kTileRows = 4096;
    const Rows& rows = view.rows;
    if (rows.by_column()) throw nb::value_error("rows must be contiguous");
    const auto p = static_cast<size_t>(rows.n_columns);
    const int64_t n_tiles = (rows.n_rows + kTileRows - 1) / kTileRows;
    nb::gil_scoped_release release;
    Team team(static_cast<int>(std::clamp<int64_t>(n_tiles, 1, n_threads)));
    std::vector<double> sums(static_cast<size_t>(n_tiles) * p, 0.0);
    std::vector<float> lows(sums.size(), std::numeric_limits<float>::infinity());
    std::vector<float> highs(sums.size(), -std::numeric_limits<float>::infinity());
    for (const bool second : {false, true}) {
        if (second) std::fill(sums.begin(), sums.end(), 0.0);
        team.each(n_tiles, [&](int64_t tile, int) {
            const size_t at = static_cast<size_t>(tile) * p;
            view.kernels->moments(rows, tile * kTileRows, std::min(rows.n_rows, (tile + 1) * kTileRows),
                                  second ? mean.data() : nullptr, sums.data() + at, lows.data() + at,
                                  highs.data() + at);
        });
        for (size_t c = 0; c < p; ++c) {
            double sum = 0;
            for (size_t tile = 0; tile < static_cast<size_t>(n_tiles); ++tile) sum += sums[tile * p + c];
            (second ? variance : mean).data()[c] = sum / static_cast<double>(rows.n_rows);
        }
    }
    for (size_t c = 0; c < p; ++c) {
        float low = lows[c], high = highs[c];
        for (size_t tile = 1; tile < static_cast<size_t>(n_tiles); ++tile) {
            low = std::min(low, lows[tile * p + c]);
            high = std::max(high, highs[tile * p + c]);
        }
        least.data()[c] = low;
        most.data()[c] = high;
    }
}

// Scores (n, m) of unseen samples, or (k, n, m), with their targets and weights.
template <int Dimensions>
void check_unseen(const Array<const double, Dimensions>& scores, const Array<const int32_t, 1>& target,
                  const Array<const double, 1>& weight) {
    const size_t n = scores.shape(Dimensions - 2), m = scores.shape(Dimensions - 1);
    if (m < 1 || target.size() != n || weight.size() != n)
        throw nb::value_error("one target and one weight per sample");
    for (size_t i = 0; i < n; ++i)
        if (target(i) < 0 || static_cast<size_t>(target(i)) >= m) throw nb::value_error("a target is out of range");
}

Unseen unseen_of(const Array<const double, 2>& scores, const Array<const int32_t, 1>& target,
                 const Array<const double, 1>& weight, const char* kernel) {
    check_unseen<2>(scores, target, weight);
    return {*choose_kernels(kernel),
            scores.data(),
            target.data(),
            weight.data(),
            static_cast<int64_t>(scores.shape(0)),
            static_cast<int64_t>(scores.shape(1))};
}

// Means and covariance of classes, of these samples or of all with a positive weight; dense rows only.
void scatter_of_classes(const RowsView& view, Array<const int32_t, 1> target,
                        std::optional<Array<const int32_t, 1>> samples, std::optional<Array<const float, 1>> weight,
                        std::optional<Array<const int32_t, 1>> columns, Array<double, 2> means,
                        Array<double, 2> covariance) {
    const Rows& rows = view.rows;
    const auto n = static_cast<size_t>(rows.n_rows),
               p = columns ? columns->size() : static_cast<size_t>(rows.n_columns);
    if (rows.kind == RowKind::csr || rows.center == nullptr) throw nb::value_error("rows must be dense, and scaled");
    if (target.size() != n || (weight && weight->size() != n) || means.shape(1) != p || covariance.shape(0) != p ||
        covariance.shape(1) != p)
        throw nb::value_error("class_scatter: shapes do not fit");
    const auto within = [](const Array<const int32_t, 1>& places, size_t end) {
        return std::all_of(places.data(), places.data() + places.size(),
                           [end](int32_t place) { return place >= 0 && static_cast<size_t>(place) < end; });
    };
    if (!within(target, means.shape(0)) || (samples && !within(*samples, n)) ||
        (columns && !within(*columns, static_cast<size_t>(rows.n_columns))))
        throw nb::value_error("a target, a sample or a column is out of range");
    std::vector<int32_t> chosen;
    if (samples) chosen.assign(samples->data(), samples->data() + samples->size());
    for (size_t i = 0; i < n && !samples; ++i)
        if (!weight || (*weight)(i) > 0) chosen.push_back(static_cast<int32_t>(i));
    nb::gil_scoped_release release;
    class_scatter({rows, *view.kernels, chosen.data(), static_cast<int64_t>(chosen.size()),
                   columns ? columns->data() : nullptr, static_cast<int64_t>(p), target.data(),
                   weight ? weight->data() : nullptr, static_cast<int64_t>(means.shape(0)), means.data(),
                   covariance.data()});
}

// std::bad_alloc, and a length that no vector can have.
void say_out_of_memory(const std::exception_ptr& error, void*) {
    constexpr const char* kSentence =
        "There is not enough memory for this fit or prediction: multiform's core could not get what it needs. Free "
        "some, "
        "or use fewer rows, fewer columns, a smaller n_components or a smaller n_jobs.";
    try {
        std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
        PyErr_SetString(PyExc_MemoryError, kSentence);
    } catch (const std::length_error&) {
        PyErr_SetString(PyExc_MemoryError, kSentence);
    }
}

void gather_rows(const RowsView& view, Array<const int32_t, 1> samples, Array<float, 2> out) {
    if (out.shape(0) != samples.size() || static_cast<int64_t>(out.shape(1)) != view.rows.n_columns + 1)
        throw nb::value_error("gather_rows: out must have the shape (samples, columns + 1)");
    for (size_t i = 0; i < samples.size(); ++i)
        if (samples(i) < 0 || samples(i) >= view.rows.n_rows) throw nb::value_error("a sample is out of range");
    const int64_t p = view.rows.n_columns;
    view.kernels->gather(
        view.rows, {samples.data(), static_cast<int64_t>(samples.size()), nullptr, p, 0, p + 1, out.data(), p + 1});
}

}  // namespace

NB_MODULE(_core, module) {
    module.doc() = "The compiled core: row access, the ratio loss, Adam and the coordinate perturbation method.";

    nb::register_exception_translator(say_out_of_memory);

    module.def("available_kernels", [] {
        std::vector<std::string> names;
        for (const char* name : {"portable", "avx2", "avx512"})
            if (kernels_named(name) != nullptr) names.emplace_back(name);
        return names;
    });

    nb::class_<RowsView>(module, "Rows")
        .def("set_scaling", &RowsView::set_scaling, nb::arg("center"), nb::arg("inverse_scale"))
        .def_prop_ro("shape",
                     [](const RowsView& view) { return nb::make_tuple(view.rows.n_rows, view.rows.n_columns); })
        .def_prop_ro("kernel", [](const RowsView& view) { return std::string(view.kernels->name); });
    module.def("dense_rows", &dense_rows, nb::arg("values"), nb::arg("kernel") = "auto");
    module.def("sparse_rows", &sparse_rows, nb::arg("data"), nb::arg("indptr"), nb::arg("indices"),
               nb::arg("n_columns"), nb::arg("kernel") = "auto");

    nb::class_<ProblemView>(module, "Problem");
    module.def("problem", &make_problem, nb::arg("rows"), nb::arg("target"), nb::arg("n_classes"), nb::arg("sgemm"));

    nb::class_<HeldAdam>(module, "AdamMember")
        .def_prop_ro("passes", [](const HeldAdam& held) { return held.solver->passes(); })
        .def_prop_ro("steps", [](const HeldAdam& held) { return held.solver->steps(); })
        .def_prop_ro("visits", [](const HeldAdam& held) { return held.solver->visits(); })
        .def_prop_ro("losses", [](const HeldAdam& held) { return held.solver->losses(); });
    module.def(
        "adam_member",
        [](nb::object problem, Array<float, 3> weights, Array<float, 3> first, Array<float, 3> second,
           std::optional<Array<const int32_t, 1>> columns, std::optional<Array<const float, 1>> sample_weight,
           Array<const float, 1> class_weight, float alpha, float noise, uint64_t seed, int64_t batch_size,
           int64_t n_passes, float learning_rate, float beta1, float beta2, float epsilon, float revisit,
           float final_rate, int64_t steps) {
            const auto& view = nb::cast<const ProblemView&>(problem);
            MemberArrays arrays = make_member(view, weights, columns, sample_weight, class_weight, alpha, noise, seed);
            if (first.size() != weights.size() || second.size() != weights.size())
                throw nb::value_error("moments must have the shape of the weights");
            if (batch_size < 1 || n_passes < 1) throw nb::value_error("batch_size and n_passes must be at least 1");
            arrays.keep.insert(arrays.keep.end(), {problem, nb::cast(first), nb::cast(second)});
            const AdamSettings settings{batch_size, n_passes, learning_rate, beta1,
                                        beta2,      epsilon,  revisit,       final_rate};
            return HeldAdam{
                std::make_unique<AdamMember>(view.problem, arrays.member, settings, first.data(), second.data(), steps),
                std::move(arrays.keep)};
        },
        nb::arg("problem"), nb::arg("weights"), nb::arg("first"), nb::arg("second"), nb::arg("columns").none(),
        nb::arg("sample_weight").none(), nb::arg("class_weight"), nb::kw_only(), nb::arg("alpha"), nb::arg("noise"),
        nb::arg("seed"), nb::arg("batch_size"), nb::arg("n_passes"), nb::arg("learning_rate"), nb::arg("beta1"),
        nb::arg("beta2"), nb::arg("epsilon"), nb::arg("revisit"), nb::arg("final_rate"), nb::arg("steps"));
    module.def(
        "sparse_adam_member",
        [](nb::object problem, Array<float, 3> weights, Array<float, 2> second,
           std::optional<Array<const int32_t, 1>> columns, std::optional<Array<const float, 1>> sample_weight,
           Array<const float, 1> class_weight, float alpha, float noise, uint64_t seed, int64_t batch_size,
           int64_t n_passes, float learning_rate, float beta2, float epsilon, float revisit, float final_rate,
           int64_t steps) {
            const auto& view = nb::cast<const ProblemView&>(problem);
            MemberArrays arrays = make_member(view, weights, columns, sample_weight, class_weight, alpha, noise, seed);
            if (second.shape(0) != weights.shape(0) || second.shape(1) != weights.shape(1))
                throw nb::value_error("the second moments must have the shape (classes, components)");
            if (batch_size < 1 || n_passes < 1) throw nb::value_error("batch_size and n_passes must be at least 1");
            arrays.keep.insert(arrays.keep.end(), {problem, nb::cast(second)});
            const AdamSettings settings{batch_size, n_passes, learning_rate, 0.0f, beta2, epsilon, revisit, final_rate};
            return HeldAdam{
                std::make_unique<SparseAdamMember>(view.problem, arrays.member, settings, second.data(), steps),
                std::move(arrays.keep)};
        },
        nb::arg("problem"), nb::arg("weights"), nb::arg("second"), nb::arg("columns").none(),
        nb::arg("sample_weight").none(), nb::arg("class_weight"), nb::kw_only(), nb::arg("alpha"), nb::arg("noise"),
        nb::arg("seed"), nb::arg("batch_size"), nb::arg("n_passes"), nb::arg("learning_rate"), nb::arg("beta2"),
        nb::arg("epsilon"), nb::arg("revisit"), nb::arg("final_rate"), nb::arg("steps"));
    module.def(
        "train_adam",
        [](nb::typed<nb::list, HeldAdam> members, int n_threads, bool shared, int64_t until, double seconds) {
            run_batch(
                listed<AdamMember>(members), n_threads, shared, seconds,
                [until](AdamMember& member, Team& team, double deadline) { member.train(team, until, deadline); });
        },
        nb::arg("members"), nb::arg("n_threads"), nb::arg("shared"), nb::arg("until"), nb::arg("seconds"));

    nb::class_<HeldCpm>(module, "CpmMember")
        .def_prop_ro("passes", [](const HeldCpm& held) { return held.solver->sweeps(); })
        .def_prop_ro("losses", [](const HeldCpm& held) { return held.solver->losses(); })
        .def_prop_ro("tried", [](const HeldCpm& held) { return held.solver->tried(); })
        .def_prop_ro("looked", [](const HeldCpm& held) { return held.solver->looked(); })
        .def_prop_ro("accepted", [](const HeldCpm& held) { return held.solver->accepted(); });
    module.def(
        "cpm_member",
        [](nb::object problem, Array<float, 3> weights, Array<float, 3> steps,
           std::optional<Array<const int32_t, 1>> columns, std::optional<Array<const float, 1>> sample_weight,
           Array<const float, 1> class_weight, float alpha, float noise, uint64_t seed, bool synchronous,
           bool frozen_own, float slack, float revisit, int64_t max_entries, int64_t ramp, float grow, float shrink,
           float smallest, float largest, float largest_offset) {
            const auto& view = nb::cast<const ProblemView&>(problem);
            MemberArrays arrays = make_member(view, weights, columns, sample_weight, class_weight, alpha, noise, seed);
            if (steps.size() != weights.size()) throw nb::value_error("steps must have the shape of the weights");
            if (ramp < 1) throw nb::value_error("ramp must be at least 1");
            arrays.keep.insert(arrays.keep.end(), {problem, nb::cast(steps)});
            const CpmSettings settings{synchronous, frozen_own, slack,    revisit, max_entries,   ramp,
                                       grow,        shrink,     smallest, largest, largest_offset};
            return HeldCpm{std::make_unique<CpmMember>(view.problem, arrays.member, settings, steps.data()),
                           std::move(arrays.keep)};
        },
        nb::arg("problem"), nb::arg("weights"), nb::arg("steps"), nb::arg("columns").none(),
        nb::arg("sample_weight").none(), nb::arg("class_weight"), nb::kw_only(), nb::arg("alpha"), nb::arg("noise"),
        nb::arg("seed"), nb::arg("synchronous"), nb::arg("frozen_own"), nb::arg("slack"), nb::arg("revisit"),
        nb::arg("max_entries"), nb::arg("ramp"), nb::arg("grow"), nb::arg("shrink"), nb::arg("smallest"),
        nb::arg("largest"), nb::arg("largest_offset"));
    module.def(
        "sweep_cpm",
        [](nb::typed<nb::list, HeldCpm> members, int n_threads, bool shared, int64_t until, double seconds) {
            const std::vector<CpmMember*> batch = listed<CpmMember>(members);
            CpmMember::share(batch);
            run_batch(batch, n_threads, shared, seconds, [until](CpmMember& member, Team& team, double deadline) {
                while (member.sweeps() < until && member.sweep(team, deadline) && seconds_now() < deadline) {
                }
            });
        },
        nb::arg("members"), nb::arg("n_threads"), nb::arg("shared"), nb::arg("until"), nb::arg("seconds"));

    module.def("member_values", &member_values, nb::arg("rows"), nb::arg("weights"), nb::arg("columns").none(),
               nb::arg("sgemm"), nb::arg("n_threads"), nb::arg("out"));
    module.def("sparse_member_values", &sparse_member_values, nb::arg("rows"), nb::arg("weights"),
               nb::arg("columns").none(), nb::arg("n_threads"), nb::arg("out"));
    module.def("column_moments", &column_moments, nb::arg("rows"), nb::arg("n_threads"), nb::arg("mean"),
               nb::arg("variance"), nb::arg("least"), nb::arg("most"));
    module.def(
        "log_sharpness",
        [](Array<const double, 3> scores, Array<const int32_t, 1> target, Array<const double, 1> weight,
           Array<double, 1> out, Array<double, 1> losses, const char* kernel) {
            check_unseen<3>(scores, target, weight);
            if (out.size() != scores.shape(0) || losses.size() != out.size())
                throw nb::value_error("one number per model");
            const Kernels* kernels = choose_kernels(kernel);
            const auto n = static_cast<int64_t>(scores.shape(1)), m = static_cast<int64_t>(scores.shape(2));
            nb::gil_scoped_release release;
            for (size_t model = 0; model < scores.shape(0); ++model) {
                const double* own = scores.data() + static_cast<int64_t>(model) * n * m;
                const Unseen unseen(*kernels, own, target.data(), weight.data(), n, m);
                out.data()[model] = unseen.log_sharpness();
                losses.data()[model] = unseen.log_loss(std::exp(out.data()[model]));
            }
        },
        nb::arg("scores"), nb::arg("target"), nb::arg("weight"), nb::arg("out"), nb::arg("losses"),
        nb::arg("kernel") = "auto");
    module.def(
        "log_sharpness_in_the_mean",
        [](Array<const double, 2> scores, Array<const int32_t, 1> target, Array<const double, 1> weight,
           const char* kernel) {
            const Unseen unseen = unseen_of(scores, target, weight, kernel);
            nb::gil_scoped_release release;
            return unseen.log_sharpness_in_the_mean();
        },
        nb::arg("scores"), nb::arg("target"), nb::arg("weight"), nb::arg("kernel") = "auto");
    module.def(
        "class_offsets",
        [](Array<const double, 2> scores, Array<const int32_t, 1> target, Array<const double, 1> weight,
           double deviation, Array<double, 1> out, const char* kernel) {
            if (out.size() != scores.shape(1)) throw nb::value_error("one number per class");
            const Unseen unseen = unseen_of(scores, target, weight, kernel);
            nb::gil_scoped_release release;
            unseen.class_offsets(deviation, out.data());
        },
        nb::arg("scores"), nb::arg("target"), nb::arg("weight"), nb::arg("deviation"), nb::arg("out"),
        nb::arg("kernel") = "auto");
    module.def("class_scatter", &scatter_of_classes, nb::arg("rows"), nb::arg("target"), nb::arg("samples").none(),
               nb::arg("weight").none(), nb::arg("columns").none(), nb::arg("means"), nb::arg("covariance"));
    module.def(
        "whiten",
        [](Array<const double, 2> covariance, double ridge, Array<double, 2> columns) {
            const size_t p = columns.shape(0);
            if (covariance.shape(0) != p || covariance.shape(1) != p)
                throw nb::value_error("whiten: shapes do not fit");
            whiten(covariance.data(), ridge, static_cast<int64_t>(p), static_cast<int64_t>(columns.shape(1)),
                   columns.data());
        },
        nb::arg("covariance"), nb::arg("ridge"), nb::arg("columns"));
    module.def("gather_rows", &gather_rows, nb::arg("rows"), nb::arg("samples"), nb::arg("out"));
}
