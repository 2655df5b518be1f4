#include "cpu_reference/packed.c"
static int regions;
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) {
    (void)body, (void)data, (void)threads, (void)flags;
    ++regions;
}
int main(void) {
    static float a[300 * 300], b[300 * 300], c[300 * 300];
    const int calls[][2] = {{300, 1}, {10, 2}, {300, 2}};
    for (int i = 0; i < 3; ++i) {
        packed(a, b, c, calls[i][0], 0, calls[i][1]);
        printf("%d\n", regions);
    }
}
