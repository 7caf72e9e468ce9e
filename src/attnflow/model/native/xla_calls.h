// What the XLA calls share: tasks on the threads of XLA's pool, copies between token-major and coordinate-major arrays, memory.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "pair_sums.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kPairsPerTask = 1 << 16;  // some 30 microseconds, beside which handing over a task costs little

// Tasks that idle threads take one at a time; the calling thread takes tasks, too. It waits for the tasks that were
// taken, not for threads that have not started, so a busy pool cannot delay it.
class Tasks {
 public:
  Tasks(int64_t count, std::function<void(int64_t)> run) : count_(count), run_(std::move(run)) {}

  void take_part() {
    for (int64_t task = next_++; task < count_; task = next_++) {
      run_(task);
      if (++done_ == count_) {
        std::lock_guard<std::mutex> lock(mutex_);
        finished_.notify_all();
      }
    }
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return done_ == count_; });
  }

 private:
  const int64_t count_;
  const std::function<void(int64_t)> run_;
  std::atomic<int64_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
};

void run_tasks(ffi::ThreadPool& pool, int64_t count, std::function<void(int64_t)> run) {
  const int64_t helpers = std::min(pool.num_threads(), count) - 1;
  if (helpers < 1) {
    for (int64_t task = 0; task < count; ++task) run(task);
    return;
  }
  auto tasks = std::make_shared<Tasks>(count, std::move(run));
  for (int64_t helper = 0; helper < helpers; ++helper) pool.Schedule([tasks]() mutable { tasks->take_part(); });
  tasks->take_part();
  tasks->wait();
}

// Calls `copy` with the number of coordinates as a constant if it is small, which unrolls its loops, and with 0 otherwise.
template <typename Copy>
void with_constant_size(int64_t size, Copy copy) {
  switch (size) {
    case 1: return copy(std::integral_constant<int, 1>());
    case 2: return copy(std::integral_constant<int, 2>());
    case 3: return copy(std::integral_constant<int, 3>());
    case 4: return copy(std::integral_constant<int, 4>());
    default: return copy(std::integral_constant<int, 0>());
  }
}

template <typename Real>
INLINE void by_coordinate(const Real* from, int64_t tokens, int64_t size, int64_t stride, Real* into) {
  with_constant_size(size, [=](auto constant) {
    const int64_t count = constant ? constant : size;
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t c = 0; c < count; ++c) into[c * stride + i] = from[i * count + c];
  });
}

template <typename Real>
INLINE void by_token(const Real* from, int64_t tokens, int64_t size, int64_t stride, Real* into) {
  with_constant_size(size, [=](auto constant) {
    const int64_t count = constant ? constant : size;
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t c = 0; c < count; ++c) into[i * count + c] = from[c * stride + i];
  });
}

// The first multiple of 64 bytes in `memory`, which is extended to hold as many numbers from there on.
template <typename Real>
Real* aligned_memory(std::vector<Real>& memory, int64_t numbers) {
  if (int64_t(memory.size()) < numbers + kPadding) memory.resize(numbers + kPadding);
  void* start = memory.data();
  size_t space = memory.size() * sizeof(Real);
  return static_cast<Real*>(std::align(64, numbers * sizeof(Real), start, space));
}

// Memory of a thread for one set of tokens, which lasts from call to call.
template <typename Real>
Real* thread_memory(int64_t numbers) {
  static thread_local std::vector<Real> memory;
  return aligned_memory(memory, numbers);
}

}  // namespace
