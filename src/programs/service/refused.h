/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SERVICE_REFUSED_H
#define SERVICE_REFUSED_H

#include <getopt.h>
#include <stdbool.h>
#include <string.h>

/*
 * Why getopt_long took an option for none. letter is what it has returned, '?' or, with ':' in
 * front of the letters, ':'. *word is the word that it has read, and becomes the option alone.
 */
static inline const char *option_refused(int letter, const char **word)
{
    static char typed[] = "-?";
    bool is_long = strncmp(*word, "--", 2) == 0;

    if (!is_long) {
        typed[1] = (char)optopt;
        *word = typed;
    }
    return letter == ':'           ? "it needs a value"
           : is_long && optopt > 0 ? "it takes no value"
                                   : "no such option";
}

#endif
