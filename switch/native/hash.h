/* Set-up of the hash algorithms' tables; the algorithms themselves are in pipeline.h. */
#ifndef XF_HASH_H
#define XF_HASH_H
void hash_init(void);
#endif
