#!/usr/bin/env python3
"""Makes lib/Codegen/Emit/MathCoefficients.inc: the polynomials of the vector math, fitted by Remez exchange.

Needs mpmath and numpy. Each polynomial approximates g(v) on [lo, hi] with the error weighted by w(v); coefficients are
rounded to their type one after the other, the rest being fitted anew each time, so that rounding costs almost nothing.
The largest weighted error found is written beside each.

Functions of floats that have no short polynomial are cut into eight pieces, which the code looks up with one permute a
coefficient. Where a piece is centred is free, so it is where the function is all but a float: the constant, which
dominates, then loses nothing when rounded.
"""
import struct
import sys

import numpy
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


def leastSquares(points, target, weight, degree, known=()):
    """The free coefficients after the known ones, over numpy arrays."""
    first = len(known)
    rest = target - sum(c * points**k for k, c in enumerate(known))
    scale = numpy.max(numpy.abs(points)) ** numpy.arange(first, degree + 1)
    columns = numpy.stack([points**k for k in range(first, degree + 1)], 1) / scale
    return numpy.linalg.lstsq(columns * weight[:, None], rest * weight, rcond=None)[0] / scale


def fitFree(points, target, weight, degree, scales=None):
    """Near-minimax in doubles where the weight vanishes inside the interval, which defeats Remez: weighted least
    squares, the weights growing where the error is large. Coefficient k is rounded to f32 after times scales[k]."""
    scales = scales or [1.0] * (degree + 1)
    grown = numpy.ones(len(points))
    for _ in range(80):
        c = leastSquares(points, target, weight * numpy.sqrt(grown), degree)
        error = numpy.abs(sum(a * points**k for k, a in enumerate(c)) - target) * weight
        grown *= error + 1e-30
        grown /= grown.sum()
    known = []
    while len(known) <= degree:
        c = leastSquares(points, target, weight * numpy.sqrt(grown), degree, known)[0]
        known.append(float(roundTo(c * scales[len(known)], 32)) / scales[len(known)])
    worst = numpy.max(numpy.abs(sum(a * points**k for k, a in enumerate(known)) - target) * weight)
    return [a * b for a, b in zip(known, scales)], worst


def nodes(lo, hi, count=120):
    return [lo + (hi - lo) * (1 - mp.cos(mp.pi * (i + 0.5) / count)) / 2 for i in range(count)]


def emitPieces(name, f, edges, order, degree, what):
    """f in eight pieces. Rows: centres, constants, the other coefficients; piece k in column order(k).
    In the first piece u itself stands for the constant, so that f(u) - u is fitted: small results keep their precision.
    """
    table = [[0.0] * 8 for _ in range(degree + 2)]
    worst = 0
    for piece, (lo, hi) in enumerate(zip(edges, edges[1:])):
        centre, constant = 0.0, 0.0
        base = lambda u: u
        if piece:
            best = None
            for k in range(-400, 401):
                at = float(roundTo((lo + hi) / 2 + (hi - lo) * k / 10000, 32))
                value = f(mpf(at))
                lost = abs(1 - roundTo(value, 32) / value)
                if best is None or lost < best:
                    best, centre, constant = lost, at, float(roundTo(value, 32))
            base = lambda u: mpf(constant)
        us = [u for u in nodes(lo, hi) if u != centre]
        points = numpy.array([float(u - centre) for u in us])
        target = numpy.array([float((f(u) - base(u)) / (u - centre)) for u in us])
        weight = numpy.array([float(abs((u - centre) / f(u))) for u in us])
        coefficients, error = fitFree(points, target, weight, degree - 1)
        worst = max(worst, error)
        for row, value in enumerate([centre, constant] + coefficients):
            table[row][order(piece)] = value
    print(f"// {what}; relative error {mp.nstr(mpf(worst), 3)}")
    print(f"constexpr float {name}[][8] = {{")
    for row in table:
        print("    {" + ", ".join(c.hex() + "f" for c in row) + "},")
    print("};")
    sys.stdout.flush()


def emitOctaves(name, f, top, degree, what):
    """Two pieces to each octave of s = 1 + 15 u / top, found by the low three bits of (bits of s >> 22)."""
    edges = [(e - 1) * mpf(top) / 15 for e in (1, 1.5, 2, 3, 4, 6, 8, 12, 16)]
    emitPieces(name, f, edges, lambda piece: (6 + piece) % 8, degree, what)


def emitSquares(name, f, top, shift, degree, what):
    """Pieces as wide as steps of (u + shift)^2, found by rounding a u^2 + b u: where f falls like e^(-u^2 / 2) each
    falls as far as the others. The first is half as wide."""
    top, shift = mpf(top), mpf(shift)
    a = mpf(15) / 2 / (top**2 + 2 * shift * top)
    edges = [mpf(0)] + [mp.sqrt(shift**2 + (i + mpf(1) / 2) / a) - shift for i in range(8)]
    emitPieces(name, f, edges, lambda piece: piece, degree, what)
    print(f"constexpr double {name}At[] = {{{float(a).hex()}, {float(2 * shift * a).hex()}}};")


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
    emit("kTanh64", *fit(g, w, 0, t * t, 11, 64), 64, "tanh x = x + x z T(z), z = x^2, x <= 0.625")
    emitOctaves("kTanhPieces", mp.tanh, "9.1", 7, "tanh u, 0 <= u <= 9.1")

    # erf x = x + x E(z)
    g = nonzero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1)
    w = nonzero(lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), mp.sqrt(mp.pi) / 2)
    emit("kErf64", *fit(g, w, 0, 1, 13, 64), 64, "erf x = x + x E(z), z = x^2, x <= 1")
    emitOctaves("kErfPieces", mp.erf, 4, 6, "erf u, 0 <= u <= 4")

    # erfcx(t) = exp(t^2) erfc(t) over (u - a) / (u + k), which makes a half line an interval, around 0 so that the
    # polynomial is well conditioned; times 1 + 2 t, so that it hardly moves.
    def erfcx(t):
        return mp.exp(t * t) * mp.erfc(t)

    def mapped(g, a, k, lo, hi):
        a, k = mpf(a), mpf(k)
        f = lambda u: (u - a) / (u + k)
        return (lambda v: g((a + k * v) / (1 - v))), f(mpf(lo)), f(mpf(hi))

    def fitMapped(g, a, k, lo, hi, degree):
        h, lo, hi = mapped(g, a, k, lo, hi)
        return fit(h, lambda v: 1 / h(v), lo, hi, degree, 64)

    emit("kErfcx64", *fitMapped(lambda t: erfcx(t) * (1 + 2 * t), 3, 3, 1, 6, 17), 64,
         "erfcx(t) (1 + 2 t) = R((t - 3) / (t + 3)), 1 <= t <= 6")
    # 2 u Phi(-u) = e^(-u^2 / 2) R(u)
    tail = lambda u: u * erfcx(u / sqrt2)
    emit("kGelu64", *fitMapped(tail, "2.5", 3, 1, 39, 24), 64,
         "u erfcx(u / sqrt 2) = R((u - 2.5) / (u + 3)), 1 <= u <= 39")
    first = interpolate(*mapped(tail, "2.5", 3, 1, 39), 24)[0]
    print("// What its first coefficient lost.")
    print(f"constexpr double kGelu64Low = {float(first - roundTo(first, 64)).hex()};")
    emitOctaves("kGeluPieces", tail, 15, 7, "u erfcx(u / sqrt 2), 0 <= u <= 15")

    # Near zero, where most arguments are, the products themselves.
    emitSquares("kGeluNear", lambda u: u * mp.erfc(u / sqrt2), "4.75", "1.5", 8, "2 u Phi(-u), 0 <= u <= 4.75")
    def tanhNear(u):
        z = mp.exp(-2 * mp.sqrt(2 / mp.pi) * (u + mpf(44715) / 10**6 * u**3))
        return 2 * u * z / (1 + z)

    emitSquares("kGeluTanhNear", tanhNear, "4.5", "1.25", 8, "u (1 - tanh(sqrt(2 / pi) (u + 0.044715 u^3))), 0 <= u <= 4.5")

    # Phi(x) = 1/2 + x P(z), z = x^2
    g = nonzero(lambda z: mp.erf(mp.sqrt(z / 2)) / mp.sqrt(z) / 2, 1 / mp.sqrt(2 * mp.pi))
    emit("kPhi64", *fit(g, lambda z: mpf(1), 0, 1, 12, 64), 64, "Phi(x) = 1/2 + x P(z), z = x^2, |x| <= 1")

    # e^(-k r) = 1 - k r + r^2 P(r): where what is raised comes in other units.
    def emitScaledExp(name, k, what):
        points = numpy.array([float(d) for d in nodes(-h, h)])
        target = numpy.array([float(mp.expm1(d) - d) / d**2 for d in points])
        coefficients, worst = fitFree(points, target, points**2, 4, [float((-k) ** (n + 2)) for n in range(5)])
        emit(name, coefficients, mpf(worst), 32, what)

    emitScaledExp("kExpHalf32", mpf(1) / 2, "e^(-r/2) = 1 - r/2 + r^2 P(r), |r| <= ln2")
    cubic = 2 * mp.sqrt(2 / mp.pi) * mpf(44715) / 10**6
    emitScaledExp("kExpCubic32", cubic, "e^(-c r) = 1 - c r + r^2 P(r), c = 2 sqrt(2/pi) 0.044715, |c r| <= ln2/2")

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
    # The high parts have so few bits that what is made with them is exact.
    def split(x, bits):
        high = mp.floor(x * 2**bits + mpf(1) / 2) / 2**bits
        return f"{float(high).hex()}, {float(roundTo(x - high, 32)).hex()}"

    print(f"constexpr double kGeluRatio[] = {{{split(10**6 / mpf(44715), 10)}}};")
    print(f"constexpr double kGeluLn2[] = {{{split(mp.log(2) / (twice * mpf(44715) / 10**6), 13)}}};")
    print(f"constexpr double kTwiceLn2[] = {{{split(2 * mp.log(2), 12)}}};")
    bits = int(mp.floor(2 / mp.pi * mpf(2)**(64 * 21)))
    words = [0] + [(bits >> (64 * (20 - i))) & (2**64 - 1) for i in range(21)]
    print("// 2/pi, most significant word first, after 64 zero bits.")
    print("constexpr uint64_t kTwoOverPi[] = {" + ", ".join(f"0x{x:016x}" for x in words) + "};")


main()
