//===- ByteRows.cpp - few rows of floats by panels of bytes ---------------===//
//
// A vector of weights takes a widening of bytes, a conversion to floats, and a
// multiply-add for each row. The three kinds share the ports of the processor,
// so that one or two rows are bound by how these are shared out, which the order
// decides in which instructions arrive. The loop over k is therefore written here
// as assembly, in an order that was found by measuring (on Zen 4): four k times
// eight panels are taken in turn, and what is done to a vector follows at a
// distance. With what is asked for ahead, it gains 3 to 8 in a hundred over the
// code generator's order.
//
// The assembly names registers only, and leaves alone what the code generator
// may keep for itself: rsp, rbp, rbx.
//
//===----------------------------------------------------------------------===//
#include "ByteRows.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace rlx {
namespace {

constexpr unsigned kPanels = ByteRows::kPanels, kUnroll = 4;
constexpr unsigned kVectorRegisters = 32;
constexpr int64_t kNear = 256; ///< bytes that are asked for into the first cache

/// What the assembly finds in memory, 8 bytes each: pointers to where whole turns end in the panels, then these.
enum Argument : unsigned { kIndex = kPanels, kAheadIndex, kRows, kRowStride, kSums, kRest, kArguments };

constexpr const char *kArgumentsAt = "rdi";
constexpr const char *kPanelEnds[kPanels] = {"rax", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12"};
constexpr const char *kIndexIn = "rcx";      ///< bytes in a panel, from where its whole turns end
constexpr const char *kAheadIndexIn = "r13"; ///< the same, of what is asked for
constexpr const char *kRowIn = "r14", *kRowStrideIn = "r15";

/// How many vectors later each is converted, and multiplied.
struct Distance {
  unsigned convert, multiply;
};
constexpr Distance kDistances[ByteRows::kMostRows] = {{13, 23}, {8, 13}};

/// A vector is converted before it is multiplied, and multiplied before its register is read into again.
constexpr bool holds(unsigned rows) {
  return kDistances[rows - 1].convert < kDistances[rows - 1].multiply &&
         kDistances[rows - 1].multiply < kVectorRegisters - rows * kPanels;
}
static_assert(holds(1) && holds(2) && ByteRows::kMostRows == 2);

class Text {
public:
  explicit Text(const ByteRows &shape) : rows(shape.rows), isSigned(shape.isSigned), os(text) {}

  std::string kernel() {
    for (unsigned i = 0; i < kPanels; ++i)
      argument(i, kPanelEnds[i]);
    argument(kIndex, kIndexIn);
    argument(kAheadIndex, kAheadIndexIn);
    argument(kRows, kRowIn);
    argument(kRowStride, kRowStrideIn);
    // What the first turns take.
    for (int64_t line = 0; line < kNear; line += 64)
      for (const char *panelEnd : kPanelEnds)
        os << "prefetcht0 " << line << "(%" << panelEnd << ",%" << kIndexIn << ")\n";
    for (unsigned i = 0; i < sums(); ++i)
      os << "vpxord %zmm" << i << ", %zmm" << i << ", %zmm" << i << '\n';
    os << "testq %" << kIndexIn << ", %" << kIndexIn << "\nje 2f\n.p2align 6\n1:\n";
    turn(kUnroll);
    os << "jne 1b\n2:\n";
    // The k behind the last whole turn.
    os << "cmpq " << 8 * kRest << "(%" << kArgumentsAt << "), %" << kIndexIn << "\nje 4f\n3:\n";
    turn(1);
    os << "cmpq " << 8 * kRest << "(%" << kArgumentsAt << "), %" << kIndexIn << "\njne 3b\n4:\n";
    argument(kSums, kIndexIn);
    for (unsigned i = 0; i < sums(); ++i)
      os << "vmovups %zmm" << i << ", " << i * 64 << "(%" << kIndexIn << ")\n";
    return std::move(text);
  }

private:
  unsigned sums() const { return rows * kPanels; }
  void argument(unsigned i, const char *to) { os << "movq " << 8 * i << "(%" << kArgumentsAt << "), %" << to << '\n'; }

  /// `count` k. The flags say afterwards whether the index is zero.
  void turn(unsigned count) {
    auto [convert, multiply] = kDistances[rows - 1];
    unsigned vectors = count * kPanels, width = kVectorRegisters - sums();
    auto held = [&](unsigned vector) { return sums() + vector % width; };
    for (unsigned step = 0; step < vectors + multiply; ++step) {
      if (step >= convert && step - convert < vectors)
        os << "vcvtdq2ps %zmm" << held(step - convert) << ", %zmm" << held(step - convert) << '\n';
      if (step < vectors)
        read(step, held(step), count == kUnroll);
      if (step >= multiply)
        multiplyAdd(step - multiply, held(step - multiply));
    }
    os << "addq $$" << count * 4 << ", %" << kRowIn << '\n';
    os << "addq $$" << count * 16 << ", %" << kAheadIndexIn << '\n';
    os << "addq $$" << count * 16 << ", %" << kIndexIn << '\n';
  }
  void read(unsigned vector, unsigned to, bool ask) {
    unsigned k = vector / kPanels, panel = vector % kPanels;
    os << (isSigned ? "vpmovsxbd " : "vpmovzxbd ") << k * 16 << "(%" << kPanelEnds[panel] << ",%" << kIndexIn
       << "), %zmm" << to << '\n';
    // A line of each panel, spread over the turn.
    if (ask && panel * kUnroll / kPanels == k)
      os << "prefetcht1 (%" << kPanelEnds[panel] << ",%" << kAheadIndexIn << ")\nprefetcht0 " << kNear << "(%"
         << kPanelEnds[panel] << ",%" << kIndexIn << ")\n";
  }
  void multiplyAdd(unsigned vector, unsigned from) {
    for (unsigned row = 0; row < rows; ++row)
      os << "vfmadd231ps " << vector / kPanels * 4 << "(%" << kRowIn << (row ? std::string(",%") + kRowStrideIn : "")
         << "){1to16}, %zmm" << from << ", %zmm" << row * kPanels + vector % kPanels << '\n';
  }

  unsigned rows;
  bool isSigned;
  std::string text;
  raw_string_ostream os;
};

} // namespace

void ByteRows::emit(Emitter &e) const {
  IRBuilder<> &b = e.b;
  Value *room = e.stackArray(b.getInt64Ty(), kArguments);
  auto argument = [&](unsigned i, Value *value) { b.CreateStore(value, b.CreateGEP(b.getInt64Ty(), room, e.i64(i))); };
  Value *panelBytes = b.CreateMul(K, e.i64(kPanel));
  Value *turnBytes = b.CreateAnd(panelBytes, e.i64(-int64_t(kUnroll * kPanel))), *index = b.CreateNeg(turnBytes);
  for (unsigned i = 0; i < kPanels; ++i)
    argument(i, b.CreateGEP(b.getInt8Ty(), panels[i], turnBytes));
  // The panels that come next are asked for into the second cache: these end before the processor has seen that they
  // are streams, and memory is far away.
  Value *distance = b.CreatePtrDiff(b.getInt8Ty(), ahead, panels[0]);
  argument(kIndex, index);
  argument(kAheadIndex, b.CreateAdd(index, distance));
  argument(kRows, a);
  argument(kRowStride, b.CreateMul(rowStride, e.i64(4)));
  argument(kSums, sums);
  argument(kRest, b.CreateSub(panelBytes, turnBytes)); // where the index ends
  std::string constraints = std::string("{") + kArgumentsAt + "},~{memory},~{flags},~{dirflag},~{fpsr}";
  auto clobber = [&](const Twine &name) { constraints += (",~{" + name + "}").str(); };
  for (const char *name : kPanelEnds)
    clobber(name);
  for (const char *name : {kIndexIn, kAheadIndexIn, kRowIn, kRowStrideIn})
    clobber(name);
  for (unsigned i = 0; i < kVectorRegisters; ++i)
    clobber("xmm" + Twine(i));
  auto *type = FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  b.CreateCall(InlineAsm::get(type, Text(*this).kernel(), constraints, /*hasSideEffects=*/true), {room});
}

} // namespace rlx
