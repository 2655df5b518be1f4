#include <limits.h>
#include <stddef.h>
#include "cuda_occupancy.h"

int active_blocks(int major, int minor, int threads_per_sm, int shared_per_sm, int shared_opt_in,
                  int reserved, int threads, int registers, int static_shared, int dynamic_shared) {
    cudaOccDeviceProp device = {0};
    cudaOccFuncAttributes function = {0};
    cudaOccDeviceState state = {0};
    cudaOccResult result;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = threads_per_sm;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = shared_per_sm;
    device.sharedMemPerBlockOptin = shared_opt_in;
    device.reservedSharedMemPerBlock = reserved;
    device.numSms = 1;
    function.maxThreadsPerBlock = 1024;
    function.numRegs = registers;
    function.sharedSizeBytes = static_shared;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = dynamic_shared;
    function.numBlockBarriers = 1;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads,
                                                dynamic_shared) != CUDA_OCC_SUCCESS) {
        return -1;
    }
    return result.activeBlocksPerMultiprocessor;
}
