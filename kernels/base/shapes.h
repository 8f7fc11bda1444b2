// The shape alphabet. Every kernel contract uses these letters and no others.
//
//   T  rows (tokens) of this call          D  model width
//   H  query heads                         G  key/value heads (H is a multiple of G)
//   E  head dimension (even)               F  gated MLP width
//   V  vocabulary size                     S  cache slots
//   P  image patches                       B  sessions decoded together
//   N  outputs of a matrix product         K  inputs of a matrix product (its inner dimension)
#pragma once
