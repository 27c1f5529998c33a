//===- LeanPasses.cpp - the code generator's passes that kernels need -----===//
#include "LeanPasses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Pass.h"

using namespace llvm;

namespace rlx {
namespace {

/// Rewrites of addresses along loops, with the analyses they need: a fifth of the code generator's time. The builders
/// write the induction variables they want, and addressing modes hold the rest.
constexpr StringRef kLoops[] = {"Canonicalize Freeze Instructions in Loops", "Loop Strength Reduction"};

/// What kernels have none of: calls, exceptions, garbage collection, indirect branches, thread-local data, AMX tiles,
/// debug information, instrumentation, hardening that an attribute would ask for.
constexpr StringRef kForOthers[] = {
    "Lower AMX intrinsics",
    "Lower AMX type for load/store",
    "Merge contiguous icmps into a memcmp",
    "Expand memcmp() to load/stores",
    "Lower Garbage Collection Instructions",
    "Shadow Stack GC Lowering",
    "Replace intrinsics with calls to vector library",
    "Partially inline calls to library functions",
    "Instrument function entry/exit with calls to e.g. mcount() (post inlining)",
    "Expand indirectbr instructions",
    "Exception handling preparation",
    "ObjC ARC contraction",
    "Prepare callbr",
    "Safe Stack instrumentation pass",
    "Local Dynamic TLS Access Clean-up",
    "X86 PIC Global Base Reg Initialization",
    "Argument Stack Rebase",
    "X86 Optimize Call Frame",
    "X86 Suppress APX features for relocation",
    "X86 speculative load hardening",
    "Tile Register Pre-configure",
    "Tile Register Configure",
    "X86 Lower Tile Copy",
    "X86 Load Value Injection (LVI) Load Hardening",
    "X86 Load Value Injection (LVI) Ret-Hardening",
    "Remove Redundant DEBUG_VALUE analysis",
    "Fixup Statepoint Caller Saved",
    "Insert KCFI indirect call checks",
    "Analyze Machine Code For Garbage Collection",
    "Insert fentry calls",
    "Insert XRay ops",
    "Implement the 'patchable-function' attribute",
    "X86 Indirect Branch Tracking",
    "X86 Atom pad short functions",
    "Contiguously Lay Out Funclets",
    "Remove Loads Into Fake Uses",
    "StackMap Liveness Analysis",
    "Live DEBUG_VALUE analysis",
    "Machine Sanitizer Binary Metadata",
    "Stack Frame Layout Analysis",
    "X86 Speculative Execution Side Effect Suppression",
    "X86 Indirect Thunks",
    "X86 Return Thunks",
    "Check CFA info and insert CFI instructions if needed",
    "Pseudo Probe Inserter",
    "Unpack machine instruction bundles",
};

} // namespace

void LeanPasses::add(Pass *pass) {
  StringRef name = pass->getPassName();
  if (is_contained(kLoops, name) || is_contained(kForOthers, name))
    delete pass;
  else
    passes.add(pass);
}

} // namespace rlx
