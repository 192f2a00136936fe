/* Inputs and outputs of `relaxc run` and `relaxc eval`: what is said on the command line becomes
 * tensors, and tensors become files or text.
 *
 * Everything is a tensor here: a Prim has rank 0, a Shape is a rank-1 int64 tensor.
 */
#ifndef RELAXC_FRONTEND_RUN_IO_H
#define RELAXC_FRONTEND_RUN_IO_H

#include "codegen/abi.h"
#include "frontend/npy.h"
#include "frontend/options.h"

/* The interface, with prefix m, of the function that the options name: --entry, else main, else the
 * only public one (R.functions come before prim_funcs). False after an error. */
bool io_entry(Context *c, const Module *m, const Options *o, AbiFunc *f);
/* One tensor per argument of f, from --input and --random. IO_ASKED: nothing was given though f
 * needs something, what it needs was printed. */
typedef enum { IO_OK, IO_ASKED, IO_WRONG } IoStatus;
/* *dims gets the symbolic dims: Var* -> const Expr*. */
IoStatus io_gather(Context *c, const Options *o, const AbiFunc *f, TensorData **args, Map *dims);
/* Shapes of a prim_func's outputs, without data. False after an error. */
bool io_prim_outputs(Context *c, const AbiFunc *f, const Map *dims, TensorData *outs);
/* Results to the file of --output, or to standard output as text. */
bool io_write(Context *c, const Options *o, const TensorData *outs, uint32_t n);

#endif
