//go:build !race

package lab_test

const many = 5000
