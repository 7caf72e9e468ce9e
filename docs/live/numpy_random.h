// The random numbers of NumPy's `default_rng`, so that a seed gives the same first tokens here as in the library.
//
// SeedSequence mixes words into four words of 32 bits (M. E. O'Neill, "Developing a seed_seq alternative", 2015). The
// generator is PCG64, XSL-RR of a 128-bit linear congruence (M. E. O'Neill, HMC-CS-2014-0905, 2014). Normal numbers come
// from the ziggurat of 256 layers (G. Marsaglia and W. W. Tsang, J. Stat. Software 5 (8), 2000).

#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

class SeedMixer {
 public:
  SeedMixer(uint32_t start, uint32_t multiplier) : constant_(start), multiplier_(multiplier) {}

  uint32_t hashed(uint32_t value) {
    value ^= constant_;
    constant_ *= multiplier_;
    value *= constant_;
    return value ^ (value >> 16);
  }

 private:
  uint32_t constant_;
  const uint32_t multiplier_;
};

inline uint32_t mixed(uint32_t first, uint32_t second) {
  const uint32_t result = 0xca01f9ddu * first - 0x4973f715u * second;
  return result ^ (result >> 16);
}

// The four words of 64 bits with which SeedSequence seeds a generator, from words of entropy and then of the spawn key.
inline std::array<uint64_t, 4> seed_words(const uint32_t* words, int entropy, int keys) {
  constexpr int kPool = 4;
  std::vector<uint32_t> whole(words, words + entropy);
  if (keys > 0 && entropy < kPool) whole.resize(kPool, 0);  // so that no key is read as entropy
  whole.insert(whole.end(), words + entropy, words + entropy + keys);
  SeedMixer mixer(0x43b0d7e5u, 0x931e8875u), output(0x8b51f9ddu, 0x58f38dedu);
  uint32_t pool[kPool];
  for (size_t k = 0; k < kPool; ++k) pool[k] = mixer.hashed(k < whole.size() ? whole[k] : 0);
  for (int from = 0; from < kPool; ++from)
    for (int to = 0; to < kPool; ++to)
      if (from != to) pool[to] = mixed(pool[to], mixer.hashed(pool[from]));
  for (size_t from = kPool; from < whole.size(); ++from)
    for (int to = 0; to < kPool; ++to) pool[to] = mixed(pool[to], mixer.hashed(whole[from]));
  std::array<uint64_t, 4> seeds{};
  for (int k = 0; k < 8; ++k) seeds[k / 2] |= uint64_t(output.hashed(pool[k % kPool])) << (k % 2 ? 32 : 0);
  return seeds;
}

// Layers of equal area under e^{-x^2/2}: layer k reaches from height f(edge[k]) to f(edge[k-1]); layer 0 has the tail.
struct Ziggurat {
  static constexpr int kLayers = 256;
  static constexpr double kTail = 3.6541528853610088;     // where the tail begins
  static constexpr double kArea = 0.00492867323397465524;  // of a layer
  static constexpr double kUnit = 4503599627370496.0;      // 2^52: numbers are drawn with 52 bits
  double width[kLayers], height[kLayers];
  uint64_t inside[kLayers];  // draws below it are under the curve

  Ziggurat() {
    const double base = kArea / std::exp(-0.5 * kTail * kTail);
    double edge = kTail;
    set(0, base, kTail), set(kLayers - 1, kTail, 0.0);
    height[0] = 1.0;
    for (int k = kLayers - 2; k > 0; --k) {
      const double next = std::sqrt(-2 * std::log(kArea / edge + std::exp(-0.5 * edge * edge)));
      inside[k + 1] = uint64_t(next / edge * kUnit);
      set(k, next, 0.0);
      edge = next;
    }
    inside[1] = 0;
  }

 private:
  void set(int k, double edge, double within) {
    width[k] = edge / kUnit, height[k] = std::exp(-0.5 * edge * edge), inside[k] = uint64_t(within / edge * kUnit);
  }
};

class RandomNumbers {
 public:
  RandomNumbers() : RandomNumbers({0, 0, 0, 0}) {}
  explicit RandomNumbers(const std::array<uint64_t, 4>& seeds)
      : state_(0), increment_(((Wide(seeds[2]) << 64 | seeds[3]) << 1) | 1) {
    step();
    state_ += Wide(seeds[0]) << 64 | seeds[1];
    step();
  }

  // Uniform in [0, 1), with 53 bits.
  double uniform() { return double(bits() >> 11) * 0x1p-53; }

  double normal() {
    static const Ziggurat z;
    for (;;) {
      uint64_t rest = bits();
      const int layer = int(rest & 0xff);
      rest >>= 8;
      const uint64_t draw = (rest >> 1) & 0x000fffffffffffffull;
      const double size = double(draw) * z.width[layer], x = rest & 1 ? -size : size;
      if (draw < z.inside[layer]) return x;
      if (layer == 0) {
        const double tail = beyond_tail();
        return (draw >> 8) & 1 ? -tail : tail;
      }
      if ((z.height[layer - 1] - z.height[layer]) * uniform() + z.height[layer] < std::exp(-0.5 * x * x)) return x;
    }
  }

 private:
  using Wide = unsigned __int128;

  void step() { state_ = state_ * (Wide(0x2360ed051fc65da4ull) << 64 | 0x4385df649fccf645ull) + increment_; }

  uint64_t bits() {
    step();
    const uint64_t folded = uint64_t(state_ >> 64) ^ uint64_t(state_);
    const int turn = int(state_ >> 122);
    return folded >> turn | folded << (-turn & 63);
  }

  double beyond_tail() {
    for (;;) {
      const double x = -std::log1p(-uniform()) / Ziggurat::kTail, y = -std::log1p(-uniform());
      if (y + y > x * x) return Ziggurat::kTail + x;
    }
  }

  Wide state_, increment_;
};

}  // namespace
