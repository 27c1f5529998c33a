//===- Image.cpp - linking an object into position-independent bytes ------===//
#include "rlx/Codegen/Image.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ExecutionEngine/JITLink/ELF.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/x86_64.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/DataExtractor.h"

#include <optional>

using namespace llvm;
using namespace llvm::jitlink;

namespace rlx {
namespace {

/// Filler of gaps: executing it traps.
constexpr char kTrapByte = '\xcc';

/// What one link leaves behind.
struct Linked {
  std::vector<char> bytes;
  uint64_t textSize = 0;
  std::optional<uint64_t> entry;
  std::string failure; // empty: linked
};

llvm::Error refuse(const Twine &what) { return createStringError(inconvertibleErrorCode(), what); }

/// Lays the segments of a graph out in one buffer, executable ones first, as
/// if it lay at `base`.
class BlockMemory final : public JITLinkMemoryManager {
public:
  BlockMemory(uint64_t base, Linked &out) : base(base), out(out) {}

  void allocate(const JITLinkDylib *, LinkGraph &graph, OnAllocatedFunction onAllocated) override {
    BasicLayout layout(graph);
    uint64_t size = 0;
    SmallVector<std::pair<BasicLayout::Segment *, uint64_t>> placed;
    for (bool wantExecutable : {true, false}) {
      for (auto &[group, segment] : layout.segments()) {
        bool executable = (group.getMemProt() & orc::MemProt::Exec) != orc::MemProt::None;
        if (executable != wantExecutable)
          continue;
        if (segment.Alignment.value() > kImageAlignment)
          return onAllocated(refuse("a segment wants an alignment of " + Twine(segment.Alignment.value()) +
                                    " bytes, an image has " + Twine(kImageAlignment)));
        if (segment.ZeroFillSize)
          return onAllocated(refuse("zero-filled data"));
        size = alignTo(size, segment.Alignment);
        placed.push_back({&segment, size});
        size += segment.ContentSize;
      }
      if (wantExecutable)
        out.textSize = size;
    }
    out.bytes.assign(size, kTrapByte);
    for (auto &[segment, offset] : placed) {
      segment->Addr = orc::ExecutorAddr(base + offset);
      segment->WorkingMem = out.bytes.data() + offset;
    }
    if (auto error = layout.apply())
      return onAllocated(std::move(error));
    onAllocated(std::make_unique<Nothing>());
  }

  void deallocate(std::vector<FinalizedAlloc> allocs, OnDeallocatedFunction onDeallocated) override {
    for (FinalizedAlloc &alloc : allocs)
      alloc.release();
    onDeallocated(llvm::Error::success());
  }

private:
  /// The buffer is the result: there is nothing to transfer or to protect.
  struct Nothing final : InFlightAlloc {
    void abandon(OnAbandonedFunction onAbandoned) override { onAbandoned(llvm::Error::success()); }
    void finalize(OnFinalizedFunction onFinalized) override { onFinalized(FinalizedAlloc(orc::ExecutorAddr(8))); }
  };

  uint64_t base;
  Linked &out;
};

bool isPCRelative(Edge::Kind kind) {
  switch (kind) {
  case x86_64::Delta32:
  case x86_64::Delta64:
  case x86_64::NegDelta32:
  case x86_64::NegDelta64:
  case x86_64::PCRel32:
  case x86_64::BranchPCRel32:
    return true;
  default:
    return false;
  }
}

/// Nothing is thrown through a kernel, and tables at places that no unwinder
/// knows serve nobody. JITLink keeps them otherwise.
llvm::Error dropUnwindTables(LinkGraph &graph) {
  if (Section *section = graph.findSectionByName(".eh_frame"))
    graph.removeSection(*section);
  return llvm::Error::success();
}

/// Before pruning: sections that would be dropped in silence, although the
/// code relies on them.
llvm::Error auditSections(LinkGraph &graph) {
  for (Section &section : graph.sections()) {
    if (section.empty() || section.getMemLifetime() == orc::MemLifetime::NoAlloc)
      continue;
    StringRef name = section.getName();
    for (StringRef prefix : {".ctors", ".dtors", ".init_array", ".fini_array", ".preinit_array", ".tdata", ".tbss"})
      if (name.starts_with(prefix))
        return refuse("section " + name + " (constructors or thread-local data)");
    if ((section.getMemProt() & orc::MemProt::Write) != orc::MemProt::None)
      return refuse("writable section " + name);
    // Equal addresses mean that sections of one name were merged: their blocks
    // would be laid out by where the linker's objects lie in memory.
    DenseSet<uint64_t> starts;
    for (Block *block : section.blocks())
      if (!starts.insert(block->getAddress().getValue()).second)
        return refuse("several sections are called " + name + ": the layout would not be deterministic");
  }
  return llvm::Error::success();
}

/// After pruning: every edge that is left must hold at any base.
llvm::Error auditEdges(LinkGraph &graph) {
  for (Block *block : graph.blocks()) {
    StringRef section = block->getSection().getName();
    for (Edge &edge : block->edges()) {
      if (!edge.isRelocation())
        continue;
      Symbol &target = edge.getTarget();
      std::string name = target.hasName()     ? (*target.getName()).str()
                         : target.isDefined() ? "section " + target.getBlock().getSection().getName().str()
                                              : std::string("an unnamed symbol");
      if (!target.isDefined())
        return refuse(Twine(graph.getEdgeKindName(edge.getKind())) + " to " + name +
                      (target.isAbsolute() ? ", which is absolute" : ", which is not defined") + ", in section " +
                      section);
      if (!isPCRelative(edge.getKind()))
        return refuse(Twine(graph.getEdgeKindName(edge.getKind())) + " to " + name +
                      " is not relative to the program counter, in section " + section);
    }
  }
  return llvm::Error::success();
}

class LinkContext final : public JITLinkContext {
public:
  LinkContext(StringRef entry, uint64_t base, Linked &out)
      : JITLinkContext(nullptr), entry(entry), base(base), out(out), memory(base, out) {}

  JITLinkMemoryManager &getMemoryManager() override { return memory; }
  void notifyFailed(llvm::Error error) override { out.failure = toString(std::move(error)); }

  void lookup(const LookupMap &symbols, std::unique_ptr<JITLinkAsyncLookupContinuation> next) override {
    if (symbols.empty())
      return next->run(AsyncLookupResult());
    next->run(refuse("undefined symbol " + *symbols.begin()->first));
  }

  llvm::Error notifyResolved(LinkGraph &graph) override {
    for (Symbol *symbol : graph.defined_symbols())
      if (symbol->hasName() && *symbol->getName() == entry)
        out.entry = symbol->getAddress().getValue() - base;
    return llvm::Error::success();
  }

  void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc alloc) override { alloc.release(); }

  // The default passes would build tables of addresses; then the audit could
  // not tell them from ours. Without them nothing is marked live but by us.
  bool shouldAddDefaultTargetPasses(const Triple &) const override { return false; }

  llvm::Error modifyPassConfig(LinkGraph &, PassConfiguration &config) override {
    config.PrePrunePasses.push_back(dropUnwindTables);
    config.PrePrunePasses.push_back(auditSections);
    config.PrePrunePasses.push_back([name = entry](LinkGraph &graph) -> llvm::Error {
      for (Symbol *symbol : graph.defined_symbols()) {
        if (!symbol->hasName() || *symbol->getName() != name)
          continue;
        if ((symbol->getBlock().getSection().getMemProt() & orc::MemProt::Exec) == orc::MemProt::None)
          return refuse("the entry '" + name + "' is not code");
        symbol->setLive(true);
        return llvm::Error::success();
      }
      return refuse("no entry '" + name + "' in the object");
    });
    config.PostPrunePasses.push_back(auditEdges);
    return llvm::Error::success();
  }

private:
  std::string entry;
  uint64_t base;
  Linked &out;
  BlockMemory memory;
};

/// Links once, as if the image lay at `base`.
Linked linkAt(MemoryBufferRef object, StringRef entry, uint64_t base) {
  Linked out;
  auto names = std::make_shared<orc::SymbolStringPool>(); // outlives every user of a name
  auto graph = createLinkGraphFromELFObject(object, names);
  if (!graph) {
    out.failure = toString(graph.takeError());
    return out;
  }
  // Synchronous, because all our callbacks are.
  link_ELF(std::move(*graph), std::make_unique<LinkContext>(entry, base, out));
  if (out.failure.empty() && !out.entry)
    out.failure = ("no entry '" + entry + "' in the image").str();
  return out;
}

/// The largest frame recorded in .stack_sizes (an address, then a ULEB128 for
/// each function); 0 without that section.
Expected<uint64_t> largestFrame(const object::ObjectFile &object) {
  uint64_t largest = 0;
  for (const object::SectionRef &section : object.sections()) {
    Expected<StringRef> name = section.getName();
    if (!name)
      return name.takeError();
    if (*name != ".stack_sizes")
      continue;
    Expected<StringRef> contents = section.getContents();
    if (!contents)
      return contents.takeError();
    DataExtractor data(*contents, /*IsLittleEndian=*/true, /*AddressSize=*/8);
    DataExtractor::Cursor cursor(0);
    while (cursor && !data.eof(cursor)) {
      data.getU64(cursor);
      largest = std::max(largest, data.getULEB128(cursor));
    }
    if (!cursor)
      return cursor.takeError();
  }
  return largest;
}

Error failure(ErrorCode code, const Twine &what) { return Error{code, ("kernel image: " + what).str()}; }

} // namespace

Result<data::KernelImageT> linkImage(std::span<const char> bytes, std::string_view entry) {
  MemoryBufferRef buffer(StringRef(bytes.data(), bytes.size()), "kernel");
  Expected<std::unique_ptr<object::ObjectFile>> object = object::ObjectFile::createELFObjectFile(buffer);
  if (!object)
    return failure(ErrorCode::Internal, toString(object.takeError()));
  if ((*object)->getArch() != Triple::x86_64)
    return failure(ErrorCode::Unsupported, "cannot link for " + Triple::getArchTypeName((*object)->getArch()));
  Expected<uint64_t> frame = largestFrame(**object);
  if (!frame)
    return failure(ErrorCode::Internal, "frame sizes: " + toString(frame.takeError()));
  if (*frame > kMaxStackBytes)
    return failure(ErrorCode::Unsupported,
                   "a stack frame of " + Twine(*frame) + " bytes, the limit is " + Twine(kMaxStackBytes));

  // The bases differ in high bits, and in low ones by a multiple of the
  // alignment: an absolute address or page of any form shows as a difference.
  Linked first = linkAt(buffer, StringRef(entry), 0x100000);
  if (!first.failure.empty())
    return failure(ErrorCode::Internal, first.failure);
  Linked second = linkAt(buffer, StringRef(entry), 0x7ffe00001fc0);
  if (!second.failure.empty())
    return failure(ErrorCode::Internal, second.failure);
  if (first.bytes != second.bytes || first.entry != second.entry || first.textSize != second.textSize)
    return failure(ErrorCode::Internal, "the code depends on its address");
  if (first.bytes.size() > UINT32_MAX)
    return failure(ErrorCode::Unsupported, "more than 4 GiB of code");

  data::KernelImageT image;
  image.code.assign(first.bytes.begin(), first.bytes.end());
  image.entry = static_cast<uint32_t>(*first.entry);
  image.text_size = static_cast<uint32_t>(first.textSize);
  image.stack_bytes = static_cast<uint32_t>(*frame);
  return image;
}

} // namespace rlx
