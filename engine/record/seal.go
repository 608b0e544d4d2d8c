package record

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Each value ends in a checksum of its key and itself: "#" and eight digits.
// bbolt has no checksums for its pages, and a single flipped bit in a
// generation could have a machine reinstalled.

const sealSize = 1 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

// opSealed returns the operation that writes a value with its checksum.
func opSealed(key string, value []byte) clientv3.Op {
	return clientv3.OpPut(key, fmt.Sprintf("%s#%08x", value, checksum(key, value)))
}

// unseal returns the value of a key after checking its checksum.
func unseal(key string, sealed []byte) ([]byte, error) {
	if at := len(sealed) - sealSize; at >= 0 && sealed[at] == '#' {
		value := sealed[:at:at]
		if is, err := strconv.ParseUint(string(sealed[at+1:]), 16, 32); err == nil && uint32(is) == checksum(key, value) {
			return value, nil
		}
	}
	return nil, damaged(fmt.Errorf("the record %s does not have the checksum that it was written with", key))
}

// sealValues is the migration that gives each value a checksum.
var sealValues = migration{"records have checksums", func(_ context.Context, _ *Store, key string, value []byte) ([]clientv3.Op, error) {
	if _, err := unseal(key, value); err == nil {
		return nil, nil // sealed before an interruption
	}
	return []clientv3.Op{opSealed(key, bytes.Clone(value))}, nil
}}
