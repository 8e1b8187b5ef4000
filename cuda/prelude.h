/* What stands before the text of each rule: cuda/job.h and cuda/element.cuh, which the build puts
 * into the plugin. */
#ifndef CUDA_PRELUDE_H
#define CUDA_PRELUDE_H

extern const char prelude_job[], prelude_element[];

#endif
