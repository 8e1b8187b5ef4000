/* Streams that do what they are given late, as a GPU's may: work is queued, and carried out when
 * something waits for it, in an order that no program may rely on.
 *
 * A wait makes the work run that it needs: the earlier work of its stream, and the work of other
 * streams for which that waits. Between these steps other work that may run does so now and then,
 * drawn with $FAKE_GPU_SEED (1); with seed 0 never. Work without a wait is never done. So a missing
 * wait shows as a wrong result, whatever the seed, unless another order hides it.
 *
 * Events are as in CUDA's documentation of cuEventRecord and cuStreamWaitEvent: who waits for one
 * waits for what it was recorded as last when the wait was given, and not for later records; one
 * that never was recorded is not waited for.
 *
 * The caller has the lock of the driver.
 */
#ifndef DEVICE_STREAMS_HH
#define DEVICE_STREAMS_HH

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <stdint.h>

/* Bytes that work reads or writes. */
struct span {
    const void *at;
    int64_t bytes;
};

/* The state of a recorded event. */
struct moment {
    struct driver_stream *stream;
    bool happened;
};

struct work {
    std::vector<span> spans; /* as far as they are known before it runs */
    std::function<void(uint64_t number)> run; /* its number: how many were given before */
    std::shared_ptr<moment> awaited, recorded; /* instead of run */
    uint64_t number;
};

struct driver_stream {
    int device;
    std::deque<work> queue;
};

struct driver_event {
    int device;
    std::shared_ptr<moment> last;
};

driver_stream *streams_new(int device);

/* Gives a stream work, and the number of the next. */
void streams_add(driver_stream *s, work w);
uint64_t streams_number();

void streams_record(driver_event *e, driver_stream *s);
void streams_wait(driver_stream *s, const driver_event *e);

/* Has run what must before an event is over, or a stream empty. */
void streams_sync(const driver_event *e);
void streams_sync(driver_stream *s);

/* Whether work that waits is to read or write some of these bytes. */
bool streams_use(const void *at, int64_t bytes);

/* Ends the process: something was done that CUDA does not promise to survive. */
[[noreturn]] void streams_die(const char *why);

#endif
