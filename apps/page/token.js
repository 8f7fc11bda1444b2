// The page for who comes without the token. The address may bring one, in its fragment, which browsers send nowhere:
// it is sent as if it had been typed. No token stays in the address bar, also a wrong one.
'use strict';

const kMark = '#token=';

function take_token() {
  const brought = location.hash.startsWith(kMark) ? location.hash.slice(kMark.length) : '';
  const address = new URL(location.href);
  address.hash = '';
  address.searchParams.delete('token');
  history.replaceState(null, '', address);
  if (!brought) return;
  const form = document.querySelector('form');
  form.elements.token.value = brought;
  form.submit();
}
addEventListener('hashchange', take_token);
take_token();
