//===- Image.h - from an object file to position-independent bytes -*- C++ -*-===//
//
// A kernel image is one block of text and constants that runs at any address
// aligned to 64 bytes: no imports, no relocations left, nothing writable. Two
// audits stand before that. The one over IR has names to speak of; the one over
// the linked graph has the last word.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_CODEGEN_IMAGE_H
#define RLX_CODEGEN_IMAGE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Result.h"

#include <span>
#include <string_view>

namespace llvm {
class Module;
} // namespace llvm

namespace rlx {

/// What an image and each of its segments may ask of its address, in bytes.
inline constexpr uint64_t kImageAlignment = 64;

/// The largest stack frame a kernel may have, in bytes: below the guard page
/// and the alternate stacks that hosts give to threads.
inline constexpr uint64_t kMaxStackBytes = 32 * 1024;

/// Refuses what can never become an image: mutable, thread-local or external
/// variables, constants that hold addresses, constructors, aliases, ifuncs,
/// declarations other than intrinsics, calls through pointers, assembly of more
/// than instructions on registers and what they point to, and a module without
/// the function `entry`. Errors (Internal) name the culprit.
Status auditModule(const llvm::Module &module, std::string_view entry);

/// Links a relocatable x86-64 ELF object into an image: `code`, `entry` and
/// `text_size` are set, and `stack_bytes` when the object records frame sizes.
/// Only what `entry` reaches is kept. Linked at two bases, which must give the
/// same bytes. Errors: Internal, naming the relocation kind, its target and
/// section; Unsupported for another architecture or a frame above
/// kMaxStackBytes. Thread safe.
Result<data::KernelImageT> linkImage(std::span<const char> object, std::string_view entry);

} // namespace rlx

#endif // RLX_CODEGEN_IMAGE_H
