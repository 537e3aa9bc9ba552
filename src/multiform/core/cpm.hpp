// The coordinate perturbation method (paper, 2.3), literal or row-synchronous.
//
// The departures from the literal algorithm, each one a setting:
//   synchronous    row r of every class moves against the other separators frozen, then f is exchanged;
//                  otherwise one class after the other, as the paper has it
//   slack          a pair with f_y / f_j <= slack * alpha is left out of the sweep; 0 keeps every pair
//   max_entries    a sweep uses a fresh random part of the samples: at most so many (sample, class) entries,
//                  fewer in the first `ramp` sweeps
//   revisit        chance that a sample without an active pair is looked at in a sweep; 1 looks at all
//   frozen_own     which own-class terms are active, and their 1 / f_j, are frozen for the length of a row; likewise
//                  the slope of the loss by the noise energy; sums are in single precision
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "aligned.hpp"
#include "entries.hpp"
#include "problem.hpp"
#include "random.hpp"

namespace multiform {

struct CpmSettings {
    bool synchronous, frozen_own;
    float slack, revisit;
    int64_t max_entries;  // 0: all
    int64_t ramp;         // the first sweeps use 1/ramp, 2/ramp, ... of max_entries
    float grow, shrink, smallest, largest, largest_offset;

    bool operator==(const CpmSettings&) const = default;
};

// The samples that one separator can affect in a sweep, in columns: own class first, then the others, each padded to
// whole blocks of lanes.
struct ClassSamples {
    std::vector<int32_t> own, other;                    // places among the sweep's samples
    std::vector<float> own_residuals, other_residuals;  // of A_k as the sweep begins: (own or other, q)
    AlignedVector<float> columns;                       // column_stride values each; as bytes when X has bytes
    AlignedVector<uint8_t> bytes;
    std::vector<int32_t> block_list;  // per column, the blocks with a value that is not 0
    std::vector<int64_t> block_start;
    int64_t own_lanes = 0, n_lanes = 0, column_stride = 0;
};

// What a sweep begins with: the samples looked at, and those of them that it keeps. The weights of samples and classes
// do not enter, so members that begin alike share their first.
struct CpmSweep {
    std::vector<int32_t> looked;
    std::vector<float> looked_loss;  // sum over j != y of max(alpha, f_y / f_j)
    std::vector<uint8_t> looked_active;
    std::vector<int32_t> samples, target;  // those kept, and their classes
    std::vector<float> f;                  // (samples, m); infinity where a pair was left out
    std::vector<ClassSamples> classes;
    std::vector<int64_t> by_size;     // classes with many samples first
    Random random{0};                 // as choosing has left it
    AlignedVector<float> by_feature;  // scratch of choosing, as the next ones
    AlignedVector<float> tile_x, tile_z, tile_f;
};

// A sweep that is over leaves its memory to the next one, of whichever member.
class SweepPool : public std::enable_shared_from_this<SweepPool> {
   public:
    std::shared_ptr<CpmSweep> take();

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<CpmSweep>> free_;
};

// The first sweep of members that begin alike; the first of them to need it chooses it.
struct FirstSweep {
    std::mutex mutex;
    std::shared_ptr<const CpmSweep> sweep;
};

class CpmMember {
   public:
    CpmMember(const Problem& problem, const Member& member, const CpmSettings& settings, float* steps);

    // Members of one batch share memory, and those that begin alike their first sweep.
    static void share(const std::vector<CpmMember*>& members);

    // One sweep over all coordinates, or the part of it until `deadline`; true when the sweep is over.
    bool sweep(Team& team, double deadline);

    int64_t sweeps() const { return sweeps_; }
    const std::vector<double>& losses() const { return losses_; }
    int64_t tried() const { return tried_; }
    int64_t looked() const { return looked_; }
    int64_t accepted() const { return accepted_; }

   private:
    // Of one thread, while it moves a row: what the kernel reads and writes, a value per lane.
    struct RowScratch {
        AlignedVector<float> residual, rest, loss, trial, own_slope, weight, inverse_rival, scaled_target, floor;
    };
    struct Counts {
        int64_t tried = 0, accepted = 0, looked = 0;
    };

    bool begins_like(const CpmMember& other) const;
    void begin_sweep(Team& team);
    std::shared_ptr<const CpmSweep> choose(Team& team);
    void lay_out(const CpmSweep& sweep, ClassSamples& set) const;
    void lay_out_entries(const CpmSweep& sweep, ClassSamples& set) const;
    void move_row(int64_t k, int64_t r, RowScratch& scratch);
    void publish(int64_t k);
    float weight(int32_t sample) const;

    Problem problem_;
    Member member_;
    CpmSettings settings_;
    float* steps_;
    RowEntries entries_;
    bool sparse_;  // few entries, and only they are looked at
    Random random_;
    std::shared_ptr<SweepPool> pool_;
    std::shared_ptr<FirstSweep> first_;  // null once it is taken, or when nobody else begins alike
    std::vector<int32_t> eligible_;
    std::vector<uint8_t> active_;
    std::shared_ptr<const CpmSweep> sweep_;    // while one is under way
    std::vector<float> f_;                     // (samples of the sweep, m), as of the last exchange
    std::vector<float> weight_;                // of the sweep's samples
    std::vector<AlignedVector<float>> new_f_;  // of each class's lanes, until the exchange
    std::vector<Counts> counts_;               // per class
    std::vector<RowScratch> scratch_;          // per thread
    int64_t sweeps_ = 0, next_row_ = -1, tried_ = 0, accepted_ = 0, looked_ = 0;
    std::vector<double> losses_;
};

}  // namespace multiform
