/* A harness without libFuzzer: `replay FILE…` runs files as they are; `replay --random SEED RUNS` makes inputs. */
#include "fuzz.h"

int printf(const char *format, ...);
int strcmp(const char *a, const char *b);
unsigned long strtoul(const char *text, char **end, int base);
typedef struct file file;
file *fopen(const char *path, const char *mode);
size_t fread(void *to, size_t size, size_t count, file *from);
int fclose(file *f);

static uint64_t state;
static uint64_t next_random(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15ul;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ z >> 27) * 0x94d049bb133111ebul;
    return z ^ z >> 31;
}

/* The harness sees a block that is exactly as long as the input. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int count, char **arguments) {
    static uint8_t buffer[1 << 20];
    uint64_t runs = 0, i, size, k;
    int n;
    if (count == 4 && !strcmp(arguments[1], "--random")) {
        state = strtoul(arguments[2], NULL, 10);
        for (runs = strtoul(arguments[3], NULL, 10), i = 0; i < runs; i++) {
            /* Small values are frequent: they are operations, ports and header types. */
            size = next_random() % 4096;
            for (k = 0; k < size; k++) {
                uint64_t r = next_random();
                buffer[k] = (uint8_t)(r & 0x300 ? r : r % 48);
            }
            run(buffer, size);
        }
    } else {
        for (n = 1; n < count; n++, runs++) {
            file *f = fopen(arguments[n], "rb");
            if (!f) return 2;
            size = fread(buffer, 1, sizeof buffer, f);
            fclose(f);
            run(buffer, size);
        }
    }
    printf("%lu inputs\n", runs);
    return 0;
}
