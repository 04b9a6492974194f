// SPDX-License-Identifier: Apache-2.0

package searching

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

func inBackground(run func()) bool {
	go run()
	return true
}

// TestSearchesAtTheSameTimeShareAList, but one that begins while a list is under way gets
// the next: its znode may be newer than the list.
func TestSearchesAtTheSameTimeShareAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, goOn, lists := make(chan struct{}), make(chan struct{}), 0
		list := func() (map[string]string, error) {
			began <- struct{}{}
			<-goOn
			if lists++; lists == 1 {
				return map[string]string{"a": "a1"}, nil
			}
			return map[string]string{"a": "a1", "b": "b1"}, nil
		}
		start := make(chan struct{})
		s := New(func(run func()) bool {
			return inBackground(func() {
				<-start
				run()
			})
		})
		first := s.Join("/x", list)
		require.Same(t, first, s.Join("/x", list), "not sent yet")
		close(start)
		<-began
		second := s.Join("/x", list)
		require.NotSame(t, first, second)
		require.Same(t, second, s.Join("/x", list))
		goOn <- struct{}{}
		<-first.Done()
		name := must.Get(first.Find("a"))(t)
		require.Equal(t, "a1", name)
		name = must.Get(first.Find("b"))(t)
		require.Empty(t, name)

		<-began
		goOn <- struct{}{}
		<-second.Done()
		name = must.Get(second.Find("b"))(t)
		require.Equal(t, "b1", name)
		synctest.Wait()
		require.Equal(t, 2, lists, "one for each pair")
		require.Empty(t, s.folders)
	})
}

func TestSearchesFoldersAreSearchedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no permission")
		s := New(inBackground)
		good := s.Join("/good", func() (map[string]string, error) { return map[string]string{"a": "a1"}, nil })
		bad := s.Join("/bad", func() (map[string]string, error) { return nil, failure })
		<-good.Done()
		<-bad.Done()
		require.Equal(t, "a1", must.Get(good.Find("a"))(t))
		_, err := bad.Find("a")
		require.ErrorIs(t, err, failure)
	})
}

func TestSearchesNoSearchAfterTheEndOfTheClient(t *testing.T) {
	s := New(func(func()) bool { return false })
	require.Nil(t, s.Join("/x", func() (map[string]string, error) {
		t.Error("no goroutine may list")
		return nil, nil
	}))
	require.Empty(t, s.folders)
}
