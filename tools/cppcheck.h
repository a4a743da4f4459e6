/* SPDX-License-Identifier: Apache-2.0 */
/* cppcheck.h - macros of other people's headers, explained to cppcheck, which reads none.
 */
#ifndef COVE_CPPCHECK_H
#define COVE_CPPCHECK_H

#define json_array_foreach(array, i, value) \
	for (i = 0; (value = json_array_get(array, i)); i++)
#define json_object_foreach(object, key, value) \
	for (key = 0; (value = json_object_get(object, key)); key++)

#endif
