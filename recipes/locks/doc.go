// Package locks has Curator's lock recipes.
package locks
