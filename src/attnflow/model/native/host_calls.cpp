// An XLA call that hands its buffers to a function of the host, without copies.
//
// jax.pure_callback is not used for this: it puts the arguments on a device again, which outside of the caller's thread
// rounds float64 to float32 and can wait for ever on a thread that it occupies itself.

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kMessageBytes = 1024;  // of an error, with its end

// Computes the output from the inputs; returns zero, or another number and writes a message.
using HostFunction = int32_t (*)(const char* key, const void** inputs, void* output, char* message);
std::atomic<HostFunction> host_function{nullptr};

ffi::Error host_call(ffi::RemainingArgs arguments, ffi::Result<ffi::AnyBuffer> output, std::string_view key) {
  std::vector<const void*> inputs;
  for (size_t number = 0; number < arguments.size(); ++number) {
    auto buffer = arguments.get<ffi::AnyBuffer>(number);
    if (!buffer.has_value()) return buffer.error();
    inputs.push_back(buffer->untyped_data());
  }
  HostFunction function = host_function.load();
  if (function == nullptr) return ffi::Error(ffi::ErrorCode::kFailedPrecondition, "no function of the host is set");
  char message[kMessageBytes] = {0};
  const std::string name(key);
  if (function(name.c_str(), inputs.data(), output->untyped_data(), message) == 0) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kInternal, message);
}

}  // namespace

extern "C" void set_host_function(HostFunction function) { host_function.store(function); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(HostCall, host_call,
                              ffi::Ffi::Bind()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::string_view>("key"));
