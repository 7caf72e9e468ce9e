// Tsitouras' method of order 5 with an embedded estimate of order 4 and a continuous extension, and its step-size control.
//
// Ch. Tsitouras, Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying assumption, Computers and
// Mathematics with Applications 62 (2011) 770-775.

#pragma once

namespace {

constexpr int kStages = 7;        // the last is the first of the next step
constexpr int kErrorOrder = 5;    // the error of a step of length h is taken to shrink like h^5
constexpr double kSafety = 0.9;   // of the length that the error estimate allows
constexpr double kLeastFactor = 0.2, kLargestFactor = 10.0;  // between the lengths of one step and the next
constexpr double kShortStep = 1e-6;  // time of a first step where none could be estimated

// Nodes and weights of the stages after the first; the last row is the step itself.
constexpr double kTsit5Nodes[kStages - 1] = {0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0};
constexpr double kTsit5Stages[kStages - 1][kStages - 1] = {
    {0.161},
    {-0.008480655492356989, 0.335480655492357},
    {2.897153057105493, -6.359448489975075, 4.362295432869581},
    {5.325864828439257, -11.748883564062828, 7.495539342889836, -0.09249506636175525},
    {5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383},
    {0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774},
};
// The step minus the embedded step of order 4.
constexpr double kTsit5Error[kStages] = {0.0017800110522257714, 0.0008164344596567463, -0.007880878010261996, 0.1447110071732629,
                                         -0.5823571654525552,   0.45808210592918686,    -0.015151515151515152};

// The weights of the stages at the fraction t of a step.
template <typename T>
inline __attribute__((always_inline)) void tsit5_interpolant(T t, double* weights) {
  const T square = t * t;
  weights[0] = T(-1.0530884977290216) * t * (t - T(1.3299890189751412)) * (square - T(1.4364028541716351) * t + T(0.7139816917074209));
  weights[1] = T(0.1017) * square * (square - T(2.1966568338249754) * t + T(1.2949852507374631));
  weights[2] = T(2.490627285651252793) * square * (square - T(2.38535645472061657) * t + T(1.57803468208092486));
  weights[3] = T(-16.54810288924490272) * (t - T(1.21712927295533244)) * (t - T(0.61620406037800089)) * square;
  weights[4] = T(47.37952196281928122) * (t - T(1.203071208372362603)) * (t - T(0.658047292653547382)) * square;
  weights[5] = T(-34.87065786149660974) * (t - T(1.2)) * (t - T(0.666666666666666667)) * square;
  weights[6] = T(2.5) * (t - 1) * (t - T(0.6)) * square;
}

}  // namespace
