/* cards.h: the graphics cards of this host, as the NVIDIA driver's management library (NVML) describes them. */
#ifndef GT_CLI_CARDS_H
#define GT_CLI_CARDS_H

enum { GT_MOST_CARDS = 16 };

typedef struct gt_card {
    char name[64];
    double busy;           /* share of the time in which a kernel ran */
    double used, memory;   /* bytes */
    double celsius, watts; /* 0: not known */
} gt_card;

/* Fills in the cards that there are and returns how many: 0 without the library, which is looked for once. Not thread-safe. */
unsigned gt__cards_read(gt_card cards[GT_MOST_CARDS]);

#endif
