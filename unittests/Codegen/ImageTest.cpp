#include "rlx/Codegen/Image.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

using namespace rlx;
using testing::AllOf;
using testing::HasSubstr;

namespace {

struct CompileOptions {
  bool pic = true;
  bool uniqueSections = true;
  std::string triple = "x86_64-unknown-linux-gnu";
};

std::unique_ptr<llvm::Module> parse(llvm::LLVMContext &context, llvm::StringRef text) {
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(text, diagnostic, context);
  EXPECT_TRUE(module) << diagnostic.getMessage().str() << " at line " << diagnostic.getLineNo();
  return module;
}

std::vector<char> compile(llvm::StringRef text, CompileOptions options = {}) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::LLVMContext context;
  auto module = parse(context, text);
  std::string error;
  llvm::Triple triple(options.triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  EXPECT_TRUE(target) << error;
  llvm::TargetOptions targetOptions;
  targetOptions.FunctionSections = true;
  targetOptions.UniqueSectionNames = options.uniqueSections;
  targetOptions.EmitStackSizeSection = true;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, "", "", targetOptions, options.pic ? llvm::Reloc::PIC_ : llvm::Reloc::Static, llvm::CodeModel::Small));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE(machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return {object.begin(), object.end()};
}

Result<data::KernelImageT> image(llvm::StringRef text, CompileOptions options = {}) {
  return linkImage(compile(text, options), "kernel");
}

Status audit(llvm::StringRef text) {
  llvm::LLVMContext context;
  return auditModule(*parse(context, text), "kernel");
}

/// An image copied to an address aligned to 64 bytes, not to a page.
class Loaded {
public:
  Loaded(const data::KernelImageT &image, size_t at) : size(image.code.size() + 4096) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(static_cast<char *>(base) + at, image.code.data(), image.code.size());
    mprotect(base, size, PROT_READ | PROT_EXEC);
    entry = static_cast<char *>(base) + at + image.entry;
  }
  ~Loaded() { munmap(base, size); }
  template <typename Fn> Fn as() const { return reinterpret_cast<Fn>(entry); }

private:
  size_t size;
  void *base;
  char *entry;
};

constexpr llvm::StringLiteral kTables = R"(
@table = internal constant [4 x i32] [i32 11, i32 22, i32 33, i32 44]
define internal i32 @helper(i64 %i) noinline nounwind {
  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %i
  %v = load i32, ptr %p
  ret i32 %v
}
define internal i32 @unused() nounwind { ret i32 5 }
define i32 @kernel(i64 %i, double %x) nounwind {
  %t = call i32 @helper(i64 %i)
  %y = fmul double %x, 3.25
  %f = fptosi double %y to i32
  switch i64 %i, label %d [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %e  i64 4, label %f1  i64 5, label %a ]
a: br label %d
b: br label %d
c: br label %d
e: br label %d
f1: br label %d
d:
  %s = phi i32 [ 0, %0 ], [ 1000, %a ], [ 2200, %b ], [ 3030, %c ], [ 4004, %e ], [ 5050, %f1 ]
  %r = add i32 %t, %s
  %q = add i32 %r, %f
  ret i32 %q
}
)";

TEST(Image, codeConstantsCallsAndTablesRunAtAnyAddress) {
  auto result = image(kTables);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->text_size, 0u);
  EXPECT_LT(result->entry, result->text_size);
  EXPECT_LT(result->text_size, result->code.size()) << "no constants behind the text";
  for (size_t at : {0, 64, 192, 4032}) {
    Loaded loaded(*result, at);
    auto fn = loaded.as<int (*)(int64_t, double)>();
    EXPECT_EQ(fn(0, 2.0), 11 + 1000 + 6) << at;
    EXPECT_EQ(fn(1, 2.0), 22 + 2200 + 6) << at;
    EXPECT_EQ(fn(3, 0.0), 44 + 4004) << at;
  }
}

TEST(Image, linksToTheSameBytesAgain) {
  std::vector<char> object = compile("define i32 @kernel() nounwind { ret i32 7 }");
  auto a = linkImage(object, "kernel"), b = linkImage(object, "kernel");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->code, b->code);
  EXPECT_EQ(a->code.size(), a->text_size) << "nothing but text";
}

TEST(Image, keepsOnlyWhatTheEntryReaches) {
  auto small = image("define i32 @kernel() nounwind { ret i32 7 }");
  auto large = image("define i32 @kernel() nounwind { ret i32 7 }\n"
                     "define i64 @other(i64 %a) nounwind { %b = mul i64 %a, 1234567 ret i64 %b }");
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->code, large->code);
}

TEST(Image, recordsTheStackFrame) {
  auto result = image("declare void @llvm.lifetime.start.p0(ptr)\n"
                      "define i8 @kernel(i64 %i) nounwind {\n"
                      "  %a = alloca [1000 x i8]\n  %p = getelementptr i8, ptr %a, i64 %i\n"
                      "  store volatile i8 3, ptr %p\n  %v = load volatile i8, ptr %p\n  ret i8 %v\n}");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GE(result->stack_bytes, 1000u - 128u) << "less the red zone";
  EXPECT_LE(result->stack_bytes, 1100u);
  auto refused = image("define i8 @kernel(i64 %i) nounwind {\n"
                       "  %a = alloca [40000 x i8]\n  %p = getelementptr i8, ptr %a, i64 %i\n"
                       "  store volatile i8 3, ptr %p\n  %v = load volatile i8, ptr %p\n  ret i8 %v\n}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("stack frame of"));
}

TEST(Image, exceptionTablesAreDropped) {
  auto with = image("define i32 @kernel() uwtable { ret i32 7 }");
  auto without = image("define i32 @kernel() nounwind { ret i32 7 }");
  ASSERT_TRUE(with && without);
  EXPECT_EQ(with->code, without->code);
}

struct Rejection {
  const char *name;
  const char *text;
  std::vector<const char *> words;
  CompileOptions options = {};
};

class ImageRejects : public testing::TestWithParam<Rejection> {};

TEST_P(ImageRejects, withTheName) {
  const Rejection &rejection = GetParam();
  auto result = image(rejection.text, rejection.options);
  ASSERT_FALSE(result);
  for (const char *word : rejection.words)
    EXPECT_THAT(result.error().message, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Image, ImageRejects,
    testing::Values(
        Rejection{"Memcpy",
                  "define void @kernel(ptr %a, ptr %b, i64 %n) nounwind {\n"
                  "  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)\n  ret void\n}\n"
                  "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
                  {"memcpy", "not defined", ".text"}},
        Rejection{"Expf",
                  "declare float @llvm.exp.f32(float)\n"
                  "define float @kernel(float %x) nounwind { %y = call float @llvm.exp.f32(float %x) ret float %y }",
                  {"expf", "not defined"}},
        Rejection{"Fmod",
                  "define float @kernel(float %x, float %y) nounwind { %r = frem float %x, %y ret float %r }",
                  {"fmodf"}},
        Rejection{"WideDivision",
                  "define i128 @kernel(i128 %x, i128 %y) nounwind { %r = sdiv i128 %x, %y ret i128 %r }",
                  {"__divti3"}},
        Rejection{"ToBFloat",
                  "define bfloat @kernel(float %x) nounwind { %r = fptrunc float %x to bfloat ret bfloat %r }",
                  {"__truncsfbf2"}},
        Rejection{"ExternalVariable",
                  "@outside = external global i32\n"
                  "define i32 @kernel() nounwind { %v = load i32, ptr @outside ret i32 %v }",
                  {"outside", "not defined"}},
        Rejection{"WeakVariable",
                  "@outside = extern_weak global i32\n"
                  "define ptr @kernel() nounwind { ret ptr @outside }",
                  {"outside", "not defined"}},
        Rejection{"Data",
                  "@state = internal global i32 5\n"
                  "define i32 @kernel() nounwind { %v = load volatile i32, ptr @state store volatile i32 1, ptr @state "
                  "ret i32 %v }",
                  {"writable", ".data"}},
        Rejection{"Bss",
                  "@state = internal global i32 0\n"
                  "define i32 @kernel() nounwind { %v = load volatile i32, ptr @state store volatile i32 1, ptr @state "
                  "ret i32 %v }",
                  {"writable", ".bss"}},
        Rejection{"PointerTable",
                  "define internal i32 @f() nounwind { ret i32 1 }\n"
                  "@table = internal constant [2 x ptr] [ptr @f, ptr @f]\n"
                  "define i32 @kernel(i64 %i) nounwind {\n"
                  "  %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i\n  %f = load ptr, ptr %p\n"
                  "  %r = call i32 %f()\n  ret i32 %r\n}",
                  {"writable", ".data.rel.ro"}},
        Rejection{"Constructor",
                  "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr "
                  "@f, ptr null }]\n"
                  "define internal void @f() nounwind { ret void }\n"
                  "define i32 @kernel() nounwind { ret i32 1 }",
                  {"constructors"}},
        Rejection{"ThreadLocal",
                  "@state = internal thread_local global i32 5\n"
                  "define i32 @kernel() nounwind { %p = call ptr @llvm.threadlocal.address.p0(ptr @state) %v = load "
                  "i32, ptr %p ret i32 %v }\n"
                  "declare ptr @llvm.threadlocal.address.p0(ptr)",
                  {"R_X86_64_TLS"}},
        Rejection{"AbsoluteJumpTable",
                  "define i32 @kernel(i32 %i, ptr %p) nounwind {\n  switch i32 %i, label %z [ i32 0, label %a i32 1, "
                  "label %b i32 2, label %c i32 3, label %d i32 4, label %e ]\n"
                  "a:\n  store volatile i32 1, ptr %p\n  ret i32 5\nb:\n  store volatile i32 2, ptr %p\n  ret i32 "
                  "1\nc:\n  store volatile i32 3, ptr %p\n  ret i32 7\n"
                  "d:\n  store volatile i32 4, ptr %p\n  ret i32 9\ne:\n  store volatile i32 5, ptr %p\n  ret i32 "
                  "2\nz:\n  ret i32 0\n}",
                  {"Pointer32Signed to section .rodata", "not relative"},
                  {.pic = false}},
        Rejection{"WideAlignment",
                  "@table = internal constant [4 x i32] [i32 1, i32 2, i32 3, i32 4], align 256\n"
                  "define i32 @kernel(i64 %i) nounwind { %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %i %v = "
                  "load i32, ptr %p ret i32 %v }",
                  {"alignment of 256"}},
        Rejection{"NoEntry", "define i32 @other() nounwind { ret i32 1 }", {"no entry 'kernel'"}},
        Rejection{"EntryIsData", "@kernel = constant i32 5", {"'kernel' is not code"}},
        Rejection{"IFunc",
                  "@kernel = ifunc i32 (), ptr @resolve\ndefine internal ptr @resolve() nounwind { ret ptr null }",
                  {"kernel"}},
        Rejection{"MergedSections",
                  "define internal i32 @f() noinline nounwind { ret i32 1 }\n"
                  "define i32 @kernel() nounwind { %r = call i32 @f() %s = add i32 %r, 1 ret i32 %s }",
                  {"several sections", ".text", "deterministic"},
                  {.uniqueSections = false}},
        Rejection{"OtherMachine",
                  "define i32 @kernel() nounwind { ret i32 1 }",
                  {"cannot link for aarch64"},
                  {.triple = "aarch64-unknown-linux-gnu"}}),
    [](const auto &info) { return info.param.name; });

TEST(Image, refusesWhatIsNoObject) {
  std::vector<char> junk(100, 'x');
  EXPECT_FALSE(linkImage(junk, "kernel"));
  EXPECT_FALSE(linkImage({}, "kernel"));
  std::vector<char> object = compile("define i32 @kernel() nounwind { ret i32 7 }");
  for (size_t size : {4ul, 16ul, 63ul, 64ul, object.size() / 2, object.size() - 1}) {
    auto cut = linkImage(std::span(object).first(size), "kernel");
    EXPECT_FALSE(cut) << size;
  }
}

TEST(ImageAudit, acceptsConstantsIntrinsicsAndLocalCalls) {
  Status status = audit("@table = internal constant [2 x float] [float 1.0, float 2.0]\n"
                        "declare float @llvm.fma.f32(float, float, float)\n"
                        "define internal float @f(float %x) { %y = call float @llvm.fma.f32(float %x, float %x, float "
                        "%x) ret float %y }\n"
                        "define float @kernel(float %x) { %y = call float @f(float %x) ret float %y }");
  EXPECT_TRUE(status) << status.error().message;
}

std::string withAssembly(const std::string &text) {
  return "define void @kernel() { call void asm sideeffect \"" + text + "\", \"~{xmm0}\"() ret void }";
}

/// Without text it frees registers; instructions need nothing that an image lacks.
TEST(ImageAudit, acceptsPlainAssembly) {
  for (const char *text :
       {"", "nop", "1:\\0A .p2align 4\\0Anop\\0Ajc 1b", "2: addq $$-16, %rcx",
        "vfmadd231ps 4(%r14,%r15){1to16}, %zmm8, %zmm0\\0Acmpq 8(%rdi), %rcx\\0A\\09jne 2f\\0A2:\\0A"}) {
    Status status = audit(withAssembly(text));
    EXPECT_TRUE(status) << status.error().message;
  }
}

/// A directive is none only at the start of a line's text: behind a label, a comment or what ends a statement it was
/// let through; so were symbols that no link would miss.
TEST(ImageAudit, issue_AssemblyThatIsNotPlain) {
  for (const char *text : {"nop\\0A .globl x",
                           "nop; .data",
                           "nop\\0D.data",
                           "x: .data",
                           "1: .data",
                           "1: 2: .data",
                           "x:",
                           "/* */ .data",
                           "nop # x",
                           "x = 5",
                           "$(nop$|.data$)",
                           "$$(.data",
                           "addq $$x, %rax",
                           "addq $$5$$x, %rax",
                           "addq $0, %rax",
                           "addq $",
                           "addq $$$",
                           "addq $$5, x(%rip)",
                           "lock addq $$5, (%rax)",
                           ".p2align x",
                           ".p2align 4, 5",
                           ".ascii \\22x\\22",
                           "jmp x",
                           "jmp *%rax",
                           "call 1f",
                           "pushq %rax",
                           "popq %rax",
                           "syscall",
                           "ret",
                           "movq %fs:0, %rax"}) {
    Status status = audit(withAssembly(text));
    ASSERT_FALSE(status) << text;
    EXPECT_THAT(status.error().message, HasSubstr("assembly '"));
    EXPECT_THAT(status.error().message, HasSubstr("in 'kernel'"));
  }
}

class ImageAuditRejects : public testing::TestWithParam<Rejection> {};

TEST_P(ImageAuditRejects, withTheName) {
  Status status = audit(GetParam().text);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Internal);
  for (const char *word : GetParam().words)
    EXPECT_THAT(status.error().message, HasSubstr(word));
}

#define KERNEL "\ndefine void @kernel() { ret void }\n"

INSTANTIATE_TEST_SUITE_P(
    Image, ImageAuditRejects,
    testing::Values(
        Rejection{"Mutable", "@state = internal global i32 5" KERNEL, {"mutable variable 'state'"}},
        Rejection{
            "ThreadLocal", "@state = internal thread_local constant i32 5" KERNEL, {"thread-local variable 'state'"}},
        Rejection{"External", "@outside = external constant i32" KERNEL, {"external variable 'outside'"}},
        Rejection{"Weak", "@outside = extern_weak constant i32" KERNEL, {"external variable 'outside'"}},
        Rejection{"Address",
                  "@table = internal constant [1 x ptr] [ptr @kernel]" KERNEL,
                  {"address held by constant 'table'"}},
        Rejection{"Constructor",
                  "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr "
                  "@kernel, ptr null }]" KERNEL,
                  {"constructors", "llvm.global_ctors"}},
        Rejection{"Declaration", "declare float @expf(float)" KERNEL, {"external function 'expf'"}},
        Rejection{"IFunc",
                  "@pick = ifunc i32 (), ptr @resolve\ndefine internal ptr @resolve() { ret ptr null }" KERNEL,
                  {"ifunc 'pick'"}},
        Rejection{"Alias", "@other = alias void (), ptr @kernel" KERNEL, {"alias 'other'"}},
        Rejection{"ModuleAssembly", "module asm \"nop\"" KERNEL, {"assembly at module level"}},
        Rejection{"Indirect",
                  "define void @kernel(ptr %f) { call void %f() ret void }",
                  {"call through a pointer in 'kernel'"}},
        Rejection{"NoEntry", "define void @other() { ret void }", {"no function 'kernel'"}},
        Rejection{"LocalEntry", "define internal void @kernel() { ret void }", {"local linkage", "'kernel'"}}),
    [](const auto &info) { return info.param.name; });

} // namespace
