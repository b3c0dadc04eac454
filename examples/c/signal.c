/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A background job in C that brakes itself by the utilisation of the disks under a path.
 *
 *   cc -I../../crates/capi/include signal.c -L../../target/release -liolens_signal -o signal
 *   LD_LIBRARY_PATH=../../target/release ./signal /data 10
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "iolens_signal.h"

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_ns(double ns)
{
    struct timespec t = {(time_t)(ns / 1e9), (long)((int64_t)ns % 1000000000)};
    nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : ".";
    int steps = argc > 2 ? atoi(argv[2]) : 3;
    char text[256];

    iolens_signal *signal = iolens_signal_open(path, 0, 0, text, sizeof text);
    if (!signal) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    iolens_brake *brake = iolens_brake_new(60, 80, 95, 0.02, text, sizeof text);
    if (!brake) {
        fprintf(stderr, "%s\n", text);
        iolens_signal_close(signal);
        return 1;
    }
    uint32_t disks = iolens_signal_disk(signal, 0, text, sizeof text);
    printf("disks %" PRIu32 ", first %s\n", disks, text);

    for (int i = 0; i < steps; i++) {
        iolens_reading r;
        uint32_t mode;
        sleep_ns(200e6);
        iolens_signal_sample(signal, &r);
        double share = iolens_brake_decide(brake, now_ns(), r.max_percent, 0.0 / 0.0, &mode);
        printf("max %.1f %%, mean %.1f %%, any %.1f %%, mode %" PRIu32 ": run %.0f %% of the time; cached %.1f %%\n",
               r.max_percent, r.mean_percent, r.any_percent, mode, 100 * share, iolens_signal_percent(signal));
        /* ... work for share of the next interval, and sleep for the rest of it ... */
    }
    iolens_brake_free(brake);
    iolens_signal_close(signal);
    return 0;
}
