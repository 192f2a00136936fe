/* What cmocka needs before it. Expected values in these tests are worked out by hand from the
 * header comments of the unit under test. */
#ifndef RELAXC_UNIT_H
#define RELAXC_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
