// Rows as lists of entries (feature, value): of sparse ones what is stored, and every column that is centred.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.hpp"

namespace multiform {

// A stored x is read as (x - center) * inverse_scale. A column whose center is 0 has an entry only where a value is
// stored; a centred one has an entry in every row.
class RowEntries {
   public:
    // `columns` are the selected ones, ascending; null: all `n_features` of them.
    RowEntries(const Rows& rows, const int32_t* columns, int64_t n_features)
        : rows_(rows), columns_(columns), n_features_(n_features) {
        if (rows.kind != RowKind::csr) return;
        for (int64_t c = 0; c < n_features; ++c) {
            const int64_t column = columns == nullptr ? c : columns[c];
            if (rows.center[column] != 0.0f && rows.inverse_scale[column] != 0.0f) {
                centred_.push_back(static_cast<int32_t>(c));
                zeros_.push_back((0.0f - rows.center[column]) * rows.inverse_scale[column]);
            }
        }
        if (columns == nullptr && centred_.empty()) return;
        feature_.assign(static_cast<size_t>(rows.n_columns), kNone);
        for (int64_t c = 0; c < n_features; ++c)
            feature_[columns == nullptr ? c : columns[c]] = static_cast<int32_t>(c);
        place_.assign(static_cast<size_t>(n_features), kNone);
        for (size_t at = 0; at < centred_.size(); ++at) place_[centred_[at]] = static_cast<int32_t>(at);
    }

    // Whether they are so few that a row is best read by them: a quarter at most, and half of the columns centred.
    bool few() const {
        return rows_.kind == RowKind::csr && 2 * static_cast<int64_t>(centred_.size()) <= n_features_ &&
               4 * (rows_.indptr[rows_.n_rows] - rows_.indptr[0]) <= rows_.n_rows * rows_.n_columns;
    }

    // Appends the entries of a row; those that are 0 are left out.
    void read(int64_t sample, std::vector<int32_t>& features, std::vector<float>& values) const {
        if (rows_.kind == RowKind::float32) return read_dense<float>(sample, features, values);
        if (rows_.kind == RowKind::uint8) return read_dense<uint8_t>(sample, features, values);
        const auto* stored = static_cast<const float*>(rows_.values);
        const size_t first = values.size();
        features.insert(features.end(), centred_.begin(), centred_.end());
        values.insert(values.end(), zeros_.begin(), zeros_.end());
        for (int64_t at = rows_.indptr[sample]; at < rows_.indptr[sample + 1]; ++at) {
            const int32_t column = rows_.indices[at];
            const float value = (stored[at] - rows_.center[column]) * rows_.inverse_scale[column];
            const int32_t feature = feature_.empty() ? column : feature_[column];
            if (feature == kNone) continue;
            if (!place_.empty() && place_[feature] != kNone) {
                values[first + static_cast<size_t>(place_[feature])] = value;
            } else if (value != 0.0f) {
                features.push_back(feature);
                values.push_back(value);
            }
        }
    }

   private:
    static constexpr int32_t kNone = -1;

    template <typename Value>
    void read_dense(int64_t sample, std::vector<int32_t>& features, std::vector<float>& values) const {
        const Value* row = static_cast<const Value*>(rows_.values) + sample * rows_.row_stride;
        for (int64_t c = 0; c < n_features_; ++c) {
            const int64_t column = columns_ == nullptr ? c : columns_[c];
            const float value = (static_cast<float>(row[column]) - rows_.center[column]) * rows_.inverse_scale[column];
            if (value == 0.0f) continue;
            features.push_back(static_cast<int32_t>(c));
            values.push_back(value);
        }
    }

    const Rows& rows_;
    const int32_t* columns_;
    int64_t n_features_;
    std::vector<int32_t> centred_, feature_, place_;  // place: of a feature among the centred ones
    std::vector<float> zeros_;                        // how a centred column reads a 0
};

}  // namespace multiform
