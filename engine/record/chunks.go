package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// With records in a shared etcd, a value that is too large for one key is there too, in chunks:
//
//	/slipway/files/SITE/DIGEST/NNNNNN
//
// DIGEST is the SHA-256 of the whole. The chunks are complete before a record names the digest, so
// whoever reads the record finds them on a majority of the members.
const (
	filesBelow = "/slipway/files/"
	// chunkSize is far below the 1.5 MiB that etcd takes in one request, and a slow member takes one
	// within the time of a request.
	chunkSize = 256 << 10
	// chunksAtOnce is how many chunks one answer has.
	chunksAtOnce = 16
)

func (s *Site) chunksBelow(digest string) string { return filesBelow + s.name + "/" + digest + "/" }

// saveChunks stores what fill writes.
func (s *Site) saveChunks(ctx context.Context, fill func(io.Writer) error) (digest string, err error) {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return "", err
	}
	all := b.Bytes()
	is := sha256.Sum256(all)
	digest = hex.EncodeToString(is[:])
	for n := 0; n == 0 || n*chunkSize < len(all); n++ {
		chunk := all[n*chunkSize : min((n+1)*chunkSize, len(all))]
		if err := s.commit(ctx, opSealed(fmt.Sprintf("%s%06d", s.chunksBelow(digest), n), chunk)); err != nil {
			return "", err
		}
	}
	return digest, nil
}

// readChunks returns what saveChunks stored, after checking its digest.
func (s *Site) readChunks(ctx context.Context, digest string) ([]byte, error) {
	below := s.chunksBelow(digest)
	var all []byte
	from, end := below, clientv3.GetPrefixRangeEnd(below)
	for more := true; more; {
		var got *clientv3.GetResponse
		if err := s.store.do(ctx, func(ctx context.Context) (err error) {
			got, err = s.store.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(chunksAtOnce))
			return err
		}); err != nil {
			return nil, err
		}
		for _, kv := range got.Kvs {
			chunk, err := unseal(string(kv.Key), kv.Value)
			if err != nil {
				return nil, err
			}
			all = append(all, chunk...)
			from = string(kv.Key) + "\x00"
		}
		more = got.More
	}
	if is := sha256.Sum256(all); hex.EncodeToString(is[:]) != digest {
		return nil, damaged(fmt.Errorf("the chunks below %s do not have the content that their name says", below))
	}
	return all, nil
}

// dropChunks deletes a value that no record names any more.
func (s *Site) dropChunks(ctx context.Context, digest string) error {
	below := s.chunksBelow(digest)
	return s.commit(ctx, clientv3.OpDelete(below, clientv3.WithRange(clientv3.GetPrefixRangeEnd(below))))
}

// sweepChunks deletes the values that are not in use.
func (s *Site) sweepChunks(ctx context.Context, used map[string]bool) error {
	below := filesBelow + s.name + "/"
	from, end := below, clientv3.GetPrefixRangeEnd(below)
	for {
		var got *clientv3.GetResponse
		if err := s.store.do(ctx, func(ctx context.Context) (err error) {
			got, err = s.store.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())
			return err
		}); err != nil || len(got.Kvs) == 0 {
			return err
		}
		digest, _, ok := strings.Cut(strings.TrimPrefix(string(got.Kvs[0].Key), below), "/")
		if !ok {
			return damaged(errors.New(string(got.Kvs[0].Key) + " is not the key of a file"))
		}
		if !used[digest] {
			if err := s.dropChunks(ctx, digest); err != nil {
				return err
			}
		}
		from = clientv3.GetPrefixRangeEnd(below + digest + "/")
	}
}
