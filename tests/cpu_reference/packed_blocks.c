#include "cpu_reference/packed.c"
int main(int count, char **words) {
    const struct caches caches = {atol(words[1]), atol(words[2]), atol(words[3])};
    printf("[");
    for (int i = 4; i < count; ++i) {
        const struct blocks blocks = blocks_for(caches, atol(words[i]));
        printf("%s{\"n\": %s, \"kc\": %ld, \"nb\": %ld, \"mc\": %ld, \"nc\": %ld}",
               i > 4 ? ", " : "", words[i], blocks.kc, blocks.nb, blocks.mc, blocks.nc);
    }
    printf("]\n%d %d\n", ROWS, COLUMNS);
}
