#!/usr/bin/env python3
"""Makes lib/Codegen/Emit/MathCoefficients.inc: the polynomials of the vector math, fitted by Remez exchange.

Needs mpmath. Each polynomial approximates g(v) on [lo, hi] with the error weighted by w(v); coefficients are rounded
to their type one after the other, the rest being fitted anew each time, so that rounding costs almost nothing.
The largest weighted error found is written beside each.
"""
import struct
import sys

from mpmath import mp, mpf

mp.dps = 60


def roundTo(value, bits):
    """Nearest f32 or f64 of an mpf."""
    if bits == 64:
        return mpf(float(value))
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def remez(g, w, lo, hi, fixed, n):
    """Minimax for n free coefficients after the `fixed` low ones. Returns (free coefficients, error)."""
    first = len(fixed)

    def base(v):
        return sum((c * v**k for k, c in enumerate(fixed)), mpf(0))

    grid = [lo + (hi - lo) * (1 - mp.cos(mp.pi * i / mpf(40 * (n + 2)))) / 2 for i in range(40 * (n + 2) + 1)]
    # Where the weight or every free power vanishes there is nothing to fit.
    grid = [v for v in grid if w(v) != 0 and (v != 0 or first == 0)]
    target = [g(v) - base(v) for v in grid]
    weight = [w(v) for v in grid]
    powers = [[v**k for k in range(first, first + n)] for v in grid]
    at = [round(i * (len(grid) - 1) / (n + 0)) for i in range(n + 1)]
    best = None
    for _ in range(25):
        m = mp.matrix(n + 1, n + 1)
        r = mp.matrix(n + 1, 1)
        for row, i in enumerate(at):
            for k in range(n):
                m[row, k] = powers[i][k] * weight[i]
            m[row, n] = (-1) ** row
            r[row] = target[i] * weight[i]
        s = mp.lu_solve(m, r)
        coefficients = [s[k] for k in range(n)]
        error = [
            (sum(c * p for c, p in zip(coefficients, powers[i])) - target[i]) * weight[i] for i in range(len(grid))
        ]
        worst = max(abs(x) for x in error)
        if best is None or worst < best[1]:
            best = (coefficients, worst)
        if abs(worst - abs(s[n])) < worst * mpf("0.005"):
            break
        # One extreme per run of equal sign, then the n + 1 neighbours with the largest smallest error.
        extremes = []
        for i, x in enumerate(error):
            if extremes and (error[extremes[-1]] > 0) == (x > 0):
                if abs(x) > abs(error[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > n + 1:
            if abs(error[extremes[0]]) < abs(error[extremes[-1]]):
                extremes.pop(0)
            else:
                extremes.pop()
        if len(extremes) < n + 1:
            break
        at = extremes
    return best


def interpolate(g, lo, hi, degree):
    """Through the Chebyshev nodes: for high degrees as good as Remez exchange, and never stuck."""
    n = degree + 1
    nodes = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    m = mp.matrix(n, n)
    for row, v in enumerate(nodes):
        for k in range(n):
            m[row, k] = v**k
    s = mp.lu_solve(m, mp.matrix([g(v) for v in nodes]))
    return [s[k] for k in range(n)]


def fit(g, w, lo, hi, degree, bits):
    """Coefficients from the lowest, rounded, and the largest weighted error."""
    lo, hi = mpf(lo), mpf(hi)
    known = []
    if lo < 0 < hi and degree <= 13:
        # All at once: what remains after rounding the first ones is zero inside the interval, which defeats Remez.
        known = [roundTo(c, bits) for c in remez(g, w, lo, hi, [], degree + 1)[0]]
    elif degree > 13:
        known = [roundTo(c, bits) for c in interpolate(g, lo, hi, degree)]
    # The high coefficients matter least: round from the lowest.
    while len(known) <= degree:
        free, _ = remez(g, w, lo, hi, known, degree + 1 - len(known))
        known.append(roundTo(free[0], bits))
    worst = mpf(0)
    for i in range(4001):
        v = lo + (hi - lo) * i / 4000
        if v == 0:
            continue
        worst = max(worst, abs((sum(c * v**k for k, c in enumerate(known)) - g(v)) * w(v)))
    return known, worst


def emit(name, coefficients, worst, bits, what):
    suffix = "f" if bits == 32 else ""
    kind = "float" if bits == 32 else "double"
    print(f"// {what}; error {mp.nstr(worst, 3)}")
    # Literals of the type itself: a double literal cut to float would be rounded twice.
    values = ", ".join(float(c).hex() + suffix for c in coefficients)
    print(f"constexpr {kind} {name}[] = {{{values}}};")
    sys.stdout.flush()


def nonzero(f, limit):
    """f(v) with its limit at 0."""
    return lambda v: mpf(limit) if abs(v) < mpf("1e-18") else f(v)


def main():
    ln2 = mp.log(2)
    sqrt2 = mp.sqrt(2)
    print("// Made by utils/fit-math.py. Coefficients from the lowest power.")

    # e^r = 1 + r + r^2 P(r)
    g = nonzero(lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5)
    w = lambda r: mpf(1)  # a weight that is zero inside the interval defeats the exchange
    h = ln2 / 2 * mpf("1.0001")
    for bits, degree, name in ((32, 4, "kExp32"), (64, 5, "kExp64Short"), (64, 9, "kExp64")):
        emit(name, *fit(g, w, -h, h, degree, bits), bits, "e^r = 1 + r + r^2 P(r), |r| <= ln2/2")

    # log(1+f) = f - f^2/2 + f^3 Q(f)
    g = nonzero(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3)
    w = lambda f: mpf(1)
    emit("kLog32", *fit(g, w, sqrt2 / 2 - 1, sqrt2 - 1, 8, 32), 32, "log(1+f) = f - f^2/2 + f^3 Q(f), sqrt(1/2) <= 1+f <= sqrt(2)")

    # log((1+s)/(1-s)) = 2s + s z L(z), z = s^2
    smax = (sqrt2 - 1) / (sqrt2 + 1)
    g = nonzero(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, mpf(2) / 3)
    w = lambda z: z / 2
    for degree, name in ((4, "kLog64Short"), (6, "kLog64")):
        emit(name, *fit(g, w, 0, smax**2, degree, 64), 64, "log((1+s)/(1-s)) = 2s + s z L(z), z = s^2")
    # the same after the term in z, for double-double: 2s + 2/3 s^3 + s z^2 L2(z)
    g2 = nonzero(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - mpf(2) / 3 * z) / z**2, mpf(2) / 5)
    emit("kLog64Tail", *fit(g2, lambda z: z**2 / 2, 0, smax**2, 7, 64), 64, "log((1+s)/(1-s)) = 2s + 2/3 s^3 + s z^2 L2(z)")

    # tanh x = x + x z T(z), z = x^2
    g = nonzero(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mpf(1) / 3)
    w = nonzero(lambda z: z * mp.sqrt(z) / mp.tanh(mp.sqrt(z)), 0)
    t = mpf("0.625")
    for bits, degree, name in ((32, 4, "kTanh32"), (64, 11, "kTanh64")):
        emit(name, *fit(g, w, 0, t * t, degree, bits), bits, "tanh x = x + x z T(z), z = x^2, x <= 0.625")

    # erf x = x + x E(z)
    g = nonzero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1)
    w = nonzero(lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), mp.sqrt(mp.pi) / 2)
    for bits, degree, limit, name in ((32, 6, "0.95", "kErf32"), (64, 13, "1.0", "kErf64")):
        emit(name, *fit(g, w, 0, mpf(limit)**2, degree, bits), bits, f"erf x = x + x E(z), z = x^2, x <= {limit}")
    # -log(erfc(t)), for 1 - exp(-q)
    g = lambda t: -mp.log(mp.erfc(t))
    w = lambda t: mp.erfc(t) / mp.erf(t)
    emit("kErfTail32", *fit(g, w, "0.95", "4.0", 7, 32), 32, "-log(erfc(t)), 0.95 <= t <= 4; error of erf")

    # erfcx(t) = exp(t^2) erfc(t) over (u - a) / (u + k), which makes a half line an interval, around 0 so that the
    # polynomial is well conditioned; times 1 + 2 t, so that it hardly moves.
    def erfcx(t):
        return mp.exp(t * t) * mp.erfc(t)

    def fitScaled(a, k, scale, lo, hi, degree, bits):
        a, k = mpf(a), mpf(k)
        f = lambda u: (u - a) / (u + k)

        def g(v):
            t = (a + k * v) / (1 - v) * scale
            return erfcx(t) * (1 + 2 * t)

        return fit(g, lambda v: 1 / g(v), f(mpf(lo)), f(mpf(hi)), degree, bits)

    half = 1 / sqrt2
    emit("kGelu32", *fitScaled("2.40625", 3, half, 0, "14.5", 9, 32), 32,
         "erfcx(u / sqrt 2) (1 + sqrt 2 u) = R((u - 2.40625) / (u + 3)), 0 <= u <= 14.5")
    emit("kGelu64", *fitScaled("3.5", 4, half, 0, "39", 25, 64), 64,
         "erfcx(u / sqrt 2) (1 + sqrt 2 u) = R((u - 3.5) / (u + 4)), 0 <= u <= 39")
    emit("kErfcx64", *fitScaled(3, 3, 1, "1.0", "6", 17, 64), 64, "erfcx(t) (1 + 2 t) = R((t - 3) / (t + 3)), 1 <= t <= 6")

    # Phi(x) = 1/2 + x P(z), z = x^2
    g = nonzero(lambda z: mp.erf(mp.sqrt(z / 2)) / mp.sqrt(z) / 2, 1 / mp.sqrt(2 * mp.pi))
    for bits, degree, name in ((32, 4, "kPhi32"), (64, 9, "kPhi64")):
        emit(name, *fit(g, lambda z: mpf(1), 0, mpf("0.75")**2, degree, bits), bits, "Phi(x) = 1/2 + x P(z), z = x^2, |x| <= 0.75")

    # sin r = r + r z S(z), cos r = 1 - z/2 + z^2 C(z)
    p4 = mp.pi / 4 * mpf("1.0001")
    g = nonzero(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mpf(1) / 6)
    w = nonzero(lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)), 0)
    for degree, name in ((3, "kSin64Short"), (5, "kSin64")):
        emit(name, *fit(g, w, 0, p4**2, degree, 64), 64, "sin r = r + r z S(z), z = r^2, |r| <= pi/4")
    g = nonzero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24)
    w = lambda z: z**2 / mp.cos(mp.sqrt(z))
    for degree, name in ((2, "kCos64Short"), (5, "kCos64")):
        emit(name, *fit(g, w, 0, p4**2, degree, 64), 64, "cos r = 1 - z/2 + z^2 C(z), z = r^2, |r| <= pi/4")

    # pi/2 in three doubles, ln 2 in pieces, and the bits of 2/pi after 64 zero bits
    def pieces(x, n):
        out = []
        for _ in range(n):
            out.append(float(x))
            x -= mpf(out[-1])
        return ", ".join(v.hex() for v in out)

    mp.dps = 450
    print(f"constexpr double kHalfPi[] = {{{pieces(mp.pi / 2, 3)}}};")
    print(f"constexpr double kLn2[] = {{{pieces(mp.log(2), 3)}}};")
    twice = 2 * mp.sqrt(2 / mp.pi)
    print(f"constexpr double kGeluTwice[] = {{{pieces(twice, 2)}}};")
    print(f"constexpr double kGeluCubic[] = {{{pieces(twice * mpf(44715) / 10**6, 2)}}};")
    bits = int(mp.floor(2 / mp.pi * mpf(2)**(64 * 21)))
    words = [0] + [(bits >> (64 * (20 - i))) & (2**64 - 1) for i in range(21)]
    print("// 2/pi, most significant word first, after 64 zero bits.")
    print("constexpr uint64_t kTwoOverPi[] = {" + ", ".join(f"0x{x:016x}" for x in words) + "};")


main()
