//===- DLPackTest.cpp - tensors of other libraries ------------------------===//
#include "CAPITest.h"

using namespace rlx::capitest;
using testing::ElementsAre;

namespace {
rlx_dl_tensor f32(float *data, std::vector<int64_t> &shape, int64_t *strides = nullptr) {
  rlx_dl_tensor tensor = {};
  tensor.data = data;
  tensor.device = {1, 0};
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.dtype = {2, 32, 1};
  tensor.shape = shape.data();
  tensor.strides = strides;
  return tensor;
}

/// The values of an f32 input.
std::vector<float> valuesOf(const rlx_input &input) {
  const auto *values = static_cast<const float *>(input.data);
  return {values, values + input.bytes / sizeof(float)};
}
} // namespace

TEST(CAPIDLPack, OutAndInAgain) {
  Executable executable = load(kJoin);
  Rows x(1, 1), y(1, 5);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  rlx_dl_managed_tensor *managed = nullptr, *second = nullptr;
  {
    Tensor z;
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
    ASSERT_OK(rlx_tensor_to_dlpack(z, &managed));
    ASSERT_OK(rlx_tensor_to_dlpack(z, &second));
    rlx_view view = {};
    ASSERT_OK(rlx_tensor_view(z, &view));
    EXPECT_EQ(managed->dl_tensor.data, view.data);
    EXPECT_EQ(second->dl_tensor.data, view.data);
    second->deleter(second);
    EXPECT_EQ(rlx::capitest::valuesOf(z), concat(x.times(2), y.times(2)));
  }
  const rlx_dl_tensor &tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.device.device_type, 1);
  EXPECT_EQ(tensor.dtype.code, 2);
  EXPECT_EQ(tensor.dtype.bits, 32);
  EXPECT_EQ(tensor.dtype.lanes, 1);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.shape[0], 2);
  EXPECT_EQ(tensor.strides[0], 4);
  EXPECT_EQ(tensor.strides[1], 1);
  EXPECT_EQ(tensor.byte_offset, 0u);

  Tensor copy;
  ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &inputs[0], &copy));
  EXPECT_EQ(static_cast<rlx_tensor *>(copy), nullptr);
  EXPECT_EQ(inputs[0].data, tensor.data);
  Tensor z;
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
  EXPECT_THAT(rlx::capitest::valuesOf(z), ElementsAre(4, 8, 12, 16, 20, 24, 28, 32, 10, 12, 14, 16));
  managed->deleter(managed);
}

TEST(CAPIDLPack, Versioned) {
  Executable executable = load(kJoin);
  Rows x(1, 1), y(1, 5);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  rlx_dl_managed_tensor_versioned *managed = nullptr;
  {
    Tensor z;
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
    ASSERT_OK(rlx_tensor_to_dlpack_versioned(z, &managed));
  }
  // It outlives the tensor.
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->version.minor, 0u);
  EXPECT_EQ(managed->flags, 0u);
  ASSERT_EQ(managed->dl_tensor.ndim, 2);
  EXPECT_EQ(managed->dl_tensor.strides[0], 4);
  // As an input, where it must not be written to either; a copy where it has to be.
  for (uint64_t flags : {0, 1}) {
    managed->flags = flags;
    Tensor copy, z;
    ASSERT_OK(rlx_input_from_dlpack_versioned(managed, "x", &inputs[0], &copy));
    EXPECT_EQ(static_cast<rlx_tensor *>(copy), nullptr);
    EXPECT_EQ(inputs[0].data, managed->dl_tensor.data);
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
    EXPECT_THAT(rlx::capitest::valuesOf(z), ElementsAre(4, 8, 12, 16, 20, 24, 28, 32, 10, 12, 14, 16));
  }
  int64_t strides[] = {1, 2};
  managed->dl_tensor.strides = strides;
  Tensor copy;
  EXPECT_FAILS(rlx_input_from_dlpack_versioned(managed, "x", &inputs[0], nullptr), RLX_INVALID_ARGUMENT, "strides");
  ASSERT_OK(rlx_input_from_dlpack_versioned(managed, "x", &inputs[0], &copy));
  EXPECT_THAT(valuesOf(inputs[0]), ElementsAre(2, 6, 10, 14, 4, 8, 12, 16));
  // Of another major version nothing is known but the deleter.
  for (uint32_t major : {0u, 2u}) {
    managed->version = {major, 7};
    managed->dl_tensor.ndim = -1;
    EXPECT_FAILS(rlx_input_from_dlpack_versioned(managed, "x", &inputs[0], nullptr), RLX_UNSUPPORTED,
                 std::to_string(major) + ".7");
  }
  managed->deleter(managed);
}

TEST(CAPIDLPack, StridesAndOffsets) {
  float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<int64_t> shape = {2, 3};
  rlx_input input = {};
  Tensor copy;
  // Transposed.
  int64_t transposed[] = {1, 2};
  rlx_dl_tensor tensor = f32(values, shape, transposed);
  EXPECT_FAILS(rlx_input_from_dlpack(&tensor, "x", &input, nullptr), RLX_INVALID_ARGUMENT, "strides");
  ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &input, &copy));
  EXPECT_NE(static_cast<rlx_tensor *>(copy), nullptr);
  EXPECT_THAT(valuesOf(input), ElementsAre(0, 2, 4, 1, 3, 5));
  // From its end, every second, and a row over and over.
  int64_t backwards[] = {0, -2};
  tensor = f32(values, shape, backwards);
  tensor.byte_offset = 10 * sizeof(float);
  ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &input, &copy));
  EXPECT_THAT(valuesOf(input), ElementsAre(10, 8, 6, 10, 8, 6));
  // Row-major, said or not; a stride along one element means nothing.
  shape = {1, 3};
  int64_t rows[] = {77, 1};
  tensor = f32(values, shape, rows);
  tensor.byte_offset = 4;
  ASSERT_OK(rlx_input_from_dlpack(&tensor, nullptr, &input, nullptr));
  EXPECT_EQ(input.data, values + 1);
  EXPECT_EQ(input.name, nullptr);
  EXPECT_EQ(input.bytes, 12u);
  int64_t wild[] = {INT64_MAX, 2};
  tensor = f32(values, shape, wild);
  ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &input, &copy));
  EXPECT_THAT(valuesOf(input), ElementsAre(0, 2, 4));
  // No elements: strides mean nothing, data may be null.
  shape = {0, 3};
  tensor = f32(nullptr, shape, transposed);
  ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &input, nullptr));
  EXPECT_EQ(input.bytes, 0u);
  // A scalar.
  shape = {};
  tensor = f32(values, shape);
  tensor.shape = nullptr;
  ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &input, nullptr));
  EXPECT_EQ(input.rank, 0);
  EXPECT_EQ(input.bytes, 4u);
}

TEST(CAPIDLPack, Types) {
  uint8_t bytes[64] = {};
  struct {
    uint8_t code, bits;
    rlx_dtype dtype;
  } known[] = {{6, 8, RLX_I1},   {0, 8, RLX_I8},   {0, 16, RLX_I16}, {0, 32, RLX_I32}, {0, 64, RLX_I64},
               {1, 8, RLX_U8},   {1, 16, RLX_U16}, {1, 32, RLX_U32}, {1, 64, RLX_U64}, {2, 16, RLX_F16},
               {2, 32, RLX_F32}, {2, 64, RLX_F64}, {4, 16, RLX_BF16}};
  int64_t shape[] = {2, 2}, transposed[] = {1, 2};
  rlx_dl_tensor tensor = {};
  tensor.data = bytes;
  tensor.device = {1, 0};
  tensor.ndim = 2;
  tensor.shape = shape;
  tensor.strides = transposed;
  rlx_input input = {};
  for (auto [code, bits, dtype] : known) {
    tensor.dtype = {code, bits, 1};
    Tensor copy;
    ASSERT_OK(rlx_input_from_dlpack(&tensor, "x", &input, &copy));
    EXPECT_EQ(input.dtype, dtype);
    EXPECT_EQ(input.bytes, 4u * bits / 8);
    rlx_dl_managed_tensor *managed = nullptr;
    ASSERT_OK(rlx_tensor_to_dlpack(copy, &managed));
    EXPECT_EQ(managed->dl_tensor.dtype.code, code);
    EXPECT_EQ(managed->dl_tensor.dtype.bits, bits);
    managed->deleter(managed);
  }
  for (auto [code, bits] : {std::pair<uint8_t, uint8_t>{2, 8}, {5, 64}, {0, 4}, {6, 1}, {3, 64}, {255, 255}}) {
    tensor.dtype = {code, bits, 1};
    EXPECT_FAILS(rlx_input_from_dlpack(&tensor, "x", &input, nullptr), RLX_INVALID_ARGUMENT, std::to_string(bits));
  }
}

TEST(CAPIDLPack, Refused) {
  float values[4] = {};
  std::vector<int64_t> shape = {2, 2};
  rlx_input input = {};
  Tensor copy;
  auto refused = [&](rlx_dl_tensor tensor, const char *part) {
    EXPECT_FAILS(rlx_input_from_dlpack(&tensor, "x", &input, &copy), RLX_INVALID_ARGUMENT, part);
    EXPECT_EQ(static_cast<rlx_tensor *>(copy), nullptr);
  };
  rlx_dl_tensor tensor = f32(values, shape);
  EXPECT_FAILS(rlx_input_from_dlpack(nullptr, "x", &input, &copy), RLX_INVALID_ARGUMENT, "tensor");
  EXPECT_FAILS(rlx_input_from_dlpack(&tensor, "x", nullptr, &copy), RLX_INVALID_ARGUMENT, "input");
  tensor.device.device_type = 2;
  refused(tensor, "device");
  tensor = f32(values, shape);
  tensor.dtype.lanes = 4;
  refused(tensor, "lanes");
  tensor = f32(nullptr, shape);
  refused(tensor, "data");
  tensor = f32(values, shape);
  tensor.shape = nullptr;
  refused(tensor, "shape");
  for (int32_t rank : {-1, 65, INT32_MAX}) {
    tensor = f32(values, shape);
    tensor.ndim = rank;
    refused(tensor, "rank");
  }
  shape = {-1, 2};
  refused(f32(values, shape), "negative");
  shape = {INT64_MAX, 2};
  refused(f32(values, shape), "fit");
  shape = {INT64_MAX / 2, 1};
  refused(f32(values, shape), "fit");
  shape = {2, 2};
  int64_t far[] = {INT64_MAX, 1};
  refused(f32(values, shape, far), "strides");
  EXPECT_FAILS(rlx_tensor_to_dlpack(nullptr, nullptr), RLX_INVALID_ARGUMENT, "NULL");
  EXPECT_FAILS(rlx_tensor_to_dlpack_versioned(nullptr, nullptr), RLX_INVALID_ARGUMENT, "NULL");
  rlx_dl_managed_tensor_versioned *versioned = nullptr;
  EXPECT_FAILS(rlx_tensor_to_dlpack_versioned(nullptr, &versioned), RLX_INVALID_ARGUMENT, "tensor");
  EXPECT_FAILS(rlx_input_from_dlpack_versioned(nullptr, "x", &input, &copy), RLX_INVALID_ARGUMENT, "managed");
  rlx_dl_managed_tensor *managed = nullptr;
  EXPECT_FAILS(rlx_tensor_to_dlpack(nullptr, &managed), RLX_INVALID_ARGUMENT, "tensor");
}
