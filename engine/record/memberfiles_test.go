package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A record that names a file is written only after a majority has the file: whoever has the record, and reads the
// state of that moment, has all of the file. Another host leads with all of them when the first is lost with its disk.
func TestFilesOfMembers(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	design := &site.Site{Name: "berlin", Nodes: map[string]*site.Node{"n1": {Name: "n1"}, "n2": {Name: "n2"}}}
	must(t, b.Accept(t.Context(), site.Revision{ID: "first"}, &site.Site{Name: "berlin"}))
	must(t, b.Accept(t.Context(), site.Revision{ID: "second"}, design)) // drops the file of the first
	must(t, b.PutInventory(t.Context(), "n1", &site.Inventory{}))
	must(t, b.PutMessage(t.Context(), "large", large()))
	for _, h := range all {
		must(t, h.etcd.etcd.Server.LinearizableReadNotify(t.Context()))
		got, err := h.etcd.client.Get(t.Context(), "/slipway/sites/berlin/slipway/v1/", clientv3.WithPrefix(), clientv3.WithSerializable())
		must(t, err)
		files := 0
		for _, kv := range got.Kvs {
			digest := ""
			if i := bytes.IndexByte(kv.Value, '@'); i == 0 {
				digest = string(kv.Value[1 : 1+2*sha256.Size])
			} else if key := string(kv.Key); strings.HasSuffix(key, "/accepted") {
				_, rest, _ := strings.Cut(string(kv.Value), `"design":"`)
				digest, _, _ = strings.Cut(rest, `"`)
			}
			if digest == "" {
				continue
			}
			files++
			below := "/slipway/sites/berlin" + filesBelow + "berlin/" + digest + "/"
			chunks, err := h.etcd.client.Get(t.Context(), below, clientv3.WithPrefix(), clientv3.WithSerializable(), clientv3.WithRev(kv.ModRevision))
			must(t, err)
			var whole []byte
			for _, c := range chunks.Kvs {
				text, err := unseal(strings.TrimPrefix(string(c.Key), "/slipway/sites/berlin"), c.Value)
				must(t, err)
				whole = append(whole, text...)
				if c.ModRevision >= kv.ModRevision {
					t.Errorf("%s: a part of its file was written after it", kv.Key)
				}
			}
			if is := sha256.Sum256(whole); hex.EncodeToString(is[:]) != digest {
				t.Errorf("%s at revision %d: its file is not whole", kv.Key, kv.ModRevision)
			}
		}
		if files != 3 {
			t.Errorf("%d records of %d name a file", files, len(got.Kvs))
		}
	}
	all[2].down()
	all[1].down()
	if err := b.PutMessage(t.Context(), "minority", append([]byte(`"x"`), large()[3:]...)); err == nil {
		t.Error("one of three recorded a file")
	}
	all[0].down()
	must(t, os.RemoveAll(all[0].dir)) // lost with its disk
	must(t, all[1].open())
	must(t, all[2].open())
	b, _ = all[1].lead()
	snap, err := b.Load(t.Context())
	must(t, err)
	if snap.Accepted == nil || snap.Accepted.Revision.ID != "second" || !reflect.DeepEqual(snap.Accepted.Design.NodeNames(), design.NodeNames()) {
		t.Errorf("in force is %+v", snap.Accepted)
	}
	messages, err := b.Messages(t.Context()) // none names a file that is missing
	must(t, err)
	if !bytes.Equal(messages["large"], large()) || messages["minority"] != nil {
		t.Errorf("%d messages", len(messages))
	}
	if inv, err := b.Inventory(t.Context(), "n1"); err != nil || inv == nil {
		t.Errorf("the inventory: %v %v", inv, err)
	}
}
