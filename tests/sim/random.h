/*
 * random.h - all random decisions come from one number.
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 … below - 1 */
static inline int random_below(uint64_t *state, int below)
{
    return (int)(random_next(state) % (uint64_t)below);
}

static inline int random_between(uint64_t *state, int low, int high)
{
    return low + random_below(state, high - low + 1);
}

static inline bool random_chance(uint64_t *state, int permille)
{
    return random_below(state, 1000) < permille;
}

#endif
