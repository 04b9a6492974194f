// Package partition divides a set of work among the live members of a group.
package partition
