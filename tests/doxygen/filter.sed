# Our comments as Doxygen wants them: the file's own, those before a declaration, those behind one.
2s|^/\*$|/** @file|
2s|^/\* |/** @file\n * |
s|^/\*\([^*]\)|/**\1|
s|^/\*$|/**|
s|^\([^/ ].*[;,{(] *\)/\* |\1/**< |
s|^\( .*[;,] *\)/\* |\1/**< |
