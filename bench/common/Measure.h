//===- Measure.h - what the machine can do, and fair timing -----*- C++ -*-===//
//
// Clock speeds and neighbours come and go: whatever is timed is timed in turn
// with a loop that knows nothing but registers, and reported beside it.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_BENCH_COMMON_MEASURE_H
#define RLX_BENCH_COMMON_MEASURE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::bench {

/// Seconds of a clock that never goes back.
double now();

/// 0 for none.
double median(std::vector<double> values);

/// The CPU as it names itself, and its caches, in one line. No name of a host.
std::string cpuName();
/// CPUs that this process may run on.
int cpuCount();

/// The number behind a key of /proc/self/status, such as "VmRSS:" (KiB) or "Threads:". 0 where there is none.
int64_t processStatus(std::string_view key);

/// GFLOP/s of independent f32 multiply-adds in registers, with the widest vectors there are: what no kernel exceeds.
/// One sample of about 3 ms on each of `threads` threads.
double fmaPeak(int threads = 1);

/// Memory for `std::free`, on huge pages where it is large and the system gives them, as weights are: with small ones
/// reading from memory is a third slower here. Not touched.
void *allocate(size_t bytes);

/// Zeros in memory that has been touched: pages of its own, not one page of zeros over and over.
class Room {
public:
  explicit Room(size_t bytes);
  std::byte *data() const { return memory.get(); }
  float *floats() const { return reinterpret_cast<float *>(memory.get()); }

private:
  std::unique_ptr<std::byte, void (*)(void *)> memory;
};

/// Seconds of calls in a row: first so many that are not timed, then so many that are.
struct Turn {
  double unmeasured, measured;
};

/// Memory that is read and copied in several streams at once, to see what its level of the memory system gives.
class Memory {
public:
  /// Takes and touches `bytes` (rounded up to whole streams).
  explicit Memory(size_t bytes);
  /// What others own, to be read only, down to whole streams. Two places of one size are not read alike: which pages
  /// of it share a part of a cache is chance.
  explicit Memory(std::span<const std::byte> data);
  ~Memory();
  /// Bytes of it, and where they begin.
  struct Piece {
    size_t offset, bytes;
  };
  /// GB/s of reading all of it in 1, in 4 and in 8 streams a thread. One sample for each, of a few ms at least.
  std::vector<double> readEach(int threads = 1, Turn turn = {0, 0});
  /// The best of them.
  double read(int threads = 1);
  /// The same for pieces of it, one after the other; each thread reads its share of each. A piece that comes again and
  /// again comes from the cache that kept it meanwhile. Pieces too small to be shared are left out; 0 where all are.
  double read(const std::vector<Piece> &order, int threads);
  /// GB/s of copying one half to the other: bytes read plus bytes written. Not of what others own.
  double copy(int threads = 1);

private:
  std::vector<double> readEach(const std::vector<Piece> &order, int threads, Turn turn = {0, 0});

  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Calls timed in turn, each round in another order, with the FMA peak, and the bandwidth of `memory` where there is
/// one, at the start of each round. The bandwidth is that of as many streams as have the best median: the best of each
/// round would be the luckiest sample of several, beside one of each contestant. With one thread, a turn in which
/// another process took the core is repeated.
class Race {
public:
  /// `threads`: of these two.
  explicit Race(int threads = 1, Memory *memory = nullptr) : threads(threads), memory(memory) {}
  /// Returns the number by which the results are asked for.
  size_t add(std::function<void()> call);
  /// May be called again, and goes on then. One round to warm up comes first. Turns are those of the memory too: a last
  /// cache that others share takes many passes over what fits into it, or nearly does, until it keeps what it will
  /// keep.
  void run(int rounds, Turn turn = {0.003, 0.003});

  /// Seconds of one call: the median turn, the fastest turn.
  double seconds(size_t who) const;
  double fastest(size_t who) const;
  /// GFLOP/s of the peak loop, the median.
  double peak() const;
  /// GB/s that `memory` was read at, the median. 0 without.
  double bandwidth() const { return median(bandwidths()); }
  /// The median over the rounds of the share of that round's peak that `flops` operations a call reached.
  double shareOfPeak(size_t who, double flops) const;
  /// The same for the larger of `flops` over the peak and `bytes` over the bandwidth.
  double shareOfLimit(size_t who, double flops, double bytes) const;
  /// The median over the rounds of the seconds of one over the seconds of another.
  double ratio(size_t who, size_t other) const;

private:
  struct Contestant {
    std::function<void()> call;
    double once = 0;             ///< seconds of a call, roughly; 0: not known yet
    std::vector<double> seconds; ///< of a call, by round
  };
  double take(Contestant &contestant, Turn turn);
  std::vector<double> bandwidths() const;

  int threads;
  Memory *memory;
  std::vector<Contestant> contestants;
  std::vector<double> peaks;
  std::vector<std::vector<double>> reads; ///< by round, what Memory::readEach gave
};

} // namespace rlx::bench

#endif // RLX_BENCH_COMMON_MEASURE_H
