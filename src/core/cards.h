/*
 * cards.h: graphics cards, as the NVIDIA driver's management library (NVML) describes them. `gt top` shows those of its host; a
 * worker tells of the one that its engine computes on (worker/card.h).
 *
 * Any thread may call these. The library is looked for once. A call can take milliseconds.
 */
#ifndef GT_CORE_CARDS_H
#define GT_CORE_CARDS_H

#include <stdbool.h>
#include <stdint.h>

enum { GT_MOST_CARDS = 16, GT_CARD_NAME = 64, GT_CARD_BUS_ID = 32 };

/* What is known of a card. A card in parts (MIG) has no utilisation, a small one no power. */
enum {
    GT_CARD_THERE = 1, /* 0: there is no card, or the driver does not know it */
    GT_CARD_BUSY = 2,
    GT_CARD_CELSIUS = 4,
    GT_CARD_WATTS = 8,
    GT_CARD_MEMORY = 16,
};

typedef struct gt_card {
    unsigned known; /* GT_CARD_...; values that are not known are 0 */
    char name[GT_CARD_NAME];
    double busy;           /* share of the time in which a kernel ran */
    uint64_t used, memory; /* bytes; used: by all processes */
    double celsius, watts;
} gt_card;

/* How many this host has: 0 without the library. */
unsigned gt__cards_count(void);

/* Fills in the cards of this host and returns how many: 0 without the library. */
unsigned gt__cards_read(gt_card cards[GT_MOST_CARDS]);

/* The card at a PCI address, "0000:1b:00.0": other than its index, it does not depend on CUDA_VISIBLE_DEVICES. False: the driver
 * does not know it, or there is no library. */
bool gt__card_read(const char *bus_id, gt_card *card);

/* `known`, busy, celsius and watts in one word, for statistics: in percent, degrees and milliwatts. */
uint64_t gt__card_pack(const gt_card *card);
void gt__card_unpack(uint64_t packed, gt_card *card);

#endif
