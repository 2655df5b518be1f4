#include "cpu_reference/packed.c"
int main(int count, char **words) {
    const struct caches caches = {atol(words[1]), atol(words[2])};
    const struct blocks blocks = most_blocks(caches);
    printf("{\"kc\": %ld, \"nb\": %ld, \"rows\": %d, \"columns\": %d}\n", blocks.kc, blocks.nb, ROWS,
           COLUMNS);
    (void)count;
}
