// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/typed"
	"github.com/gocurator/curator/testing/zktest"
)

var errNoAddress = errors.New("no address")

// checked is a codec that wants an address and knows all fields.
func checked() typed.Codec[service] {
	return typed.StrictJSON[service]().Validating(func(s service) error {
		if s.Address == "" {
			return errNoAddress
		}
		return nil
	})
}

func TestFollowCodecs(t *testing.T) {
	for data, want := range map[string]string{
		`{"Address":"a"}`:                 "",
		`{"Address":"a","Hits":1}` + "\n": "",
		`{"Port":"a"}`:                    `unknown field "Port"`,
		`{"Address":""}`:                  "no address",
		`{"Address":"a"} {}`:              "expected one value",
		``:                                "EOF",
	} {
		_, err := checked().Decode([]byte(data))
		if want == "" {
			require.NoError(t, err, data)
			continue
		}
		require.ErrorContains(t, err, want, data)
	}
	_, err := checked().Encode(service{})
	require.ErrorIs(t, err, errNoAddress)
	must.Get(typed.JSON[service]().Decode([]byte(`{"Port":"a"}`)))(t)
}

// TestNodeFollowKeepsTheLastGoodValue: data that is refused and a missing znode are errors, and change no value.
func TestNodeFollowKeepsTheLastGoodValue(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		node := must.Get(typed.NewNode(client, "/node", checked()))(t)
		write := func(data string) {
			must.Get(client.Create(t.Context(), "/node", []byte(data), framework.OrSetData(), framework.CreatingParentsIfNeeded()))(t)
		}
		steps := []struct {
			do   func()
			want string
		}{
			{func() { write(`{"Address":"a"}`) }, "a"},
			{func() { write(`{"Address":""}`) }, "a, refused"},
			{func() { write(`{"Wrong":1}`) }, "a, refused"},
			{func() { write(`{"Address":"b"}`) }, "b"},
			{func() { require.NoError(t, node.Delete(t.Context())) }, "b, missing"},
			{func() { write(`{"Address":""}`) }, "b, refused"},
			{func() { require.NoError(t, node.Put(t.Context(), service{Address: "c"})) }, "c"},
		}
		var seen []string
		for state, err := range node.Follow(t.Context()) {
			text := "none"
			if state.Stat != nil {
				text = state.Value.Address
			}
			switch {
			case errors.Is(err, framework.ErrNoNode):
				require.ErrorContains(t, err, "typed: /node")
				text += ", missing"
			case err != nil:
				require.ErrorIs(t, err, typed.ErrCodec)
				require.ErrorContains(t, err, "typed: /node")
				text += ", refused"
			}
			if seen = append(seen, text); len(seen) > len(steps) {
				break
			}
			steps[len(seen)-1].do()
		}
		want := []string{"none, missing"}
		for _, step := range steps {
			want = append(want, step.want)
		}
		require.Equal(t, want, seen)
	})
}

func TestFolderValuesAndChanges(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	folder := must.Get(typed.NewFolder(client, "/services/{service}/{id}", checked()))(t)
	put := func(id, data string) {
		must.Get(client.Create(t.Context(), "/services/search/"+id, []byte(data), framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
	}
	put("1", `{"Address":"a"}`)
	put("2", `{}`)

	values, err := folder.Values(t.Context(), "search")
	require.ErrorIs(t, err, typed.ErrCodec)
	require.ErrorContains(t, err, "/services/search/2")
	require.Equal(t, map[string]service{"1": {Address: "a"}}, values)
	_, err = folder.Values(t.Context(), "none")
	require.ErrorIs(t, err, framework.ErrNoNode)
	_, err = folder.Values(t.Context())
	require.ErrorIs(t, err, framework.ErrInvalidOption)

	c := must.Get(cache.NewCuratorCache(client, "/services"))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	changes := make(chan string, 10)
	must.Get(folder.OnChange(c, func(change typed.Change[service]) {
		side := func(s *service) string {
			if s == nil {
				return "none"
			}
			return s.Address
		}
		changes <- fmt.Sprint(change.Parameters, " ", side(change.Old), " to ", side(change.New), " ", errors.Is(change.Err, errNoAddress))
	}))(t)
	_, err = folder.OnChange(nil, func(typed.Change[service]) {})
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	_, err = folder.OnChange(c, nil)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	require.NoError(t, c.Start())
	first := []string{zktest.Await(t, changes, "the first"), zktest.Await(t, changes, "the second")}
	require.ElementsMatch(t, []string{"[search 1] none to a false", "[search 2] none to none true"}, first)
	put("2", `{"Address":"b"}`)
	require.Equal(t, "[search 2] none to b false", zktest.Await(t, changes, "a better value"))
	require.NoError(t, client.Delete(t.Context(), "/services/search/1"))
	require.Equal(t, "[search 1] a to none false", zktest.Await(t, changes, "the deletion"))
}

func TestFollowOperationsOfATransaction(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	a := must.Get(typed.NewNode(client, "/a", checked()))(t)
	b := must.Get(typed.NewNode(client, "/b", checked()))(t)
	create := must.Get(a.CreateOp(service{Address: "a"}))(t)
	createB := must.Get(b.CreateOp(service{Address: "b"}))(t)
	set := must.Get(a.SetOp(service{Address: "c"}, framework.WithVersion(0)))(t)
	must.Get(client.Transact(t.Context(), create, createB, set))(t)
	value, stat, err := a.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "c", value.Address)
	require.EqualValues(t, 1, stat.Version)
	_, err = a.CreateOp(service{})
	require.ErrorIs(t, err, typed.ErrCodec)
	_, err = a.SetOp(service{})
	require.ErrorIs(t, err, errNoAddress)
}
