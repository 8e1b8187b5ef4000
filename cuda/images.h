/* The compiled kernels, which the build puts into the plugin: code for sm_80 and sm_90, and PTX for
 * later devices. */
#pragma once

extern const unsigned char image_sum[], image_convert[], image_quantise[];
