// The page's side of a live figure (live.py). `load`, which is put before this text, gives plotly.js itself.

let Plotly;
const CONFIG = { showSendToCloud: false };

export default () => {
  let figure; // {data, layout}, with all changes so far: what a view that comes later shows
  const plots = new Set();

  return {
    initialize({ model }) {
      figure = JSON.parse(model.get("drawing"));
      model.on("msg:custom", (message) => {
        const { traces, layout } = JSON.parse(message.changes);
        figure.data.forEach((trace, i) => patch(trace, traces[i]));
        patch(figure.layout, layout);
        const paths = [...new Set(traces.flatMap(Object.keys))];
        const restyled = paths.map((path) => [path, traces.map((changes) => changes[path])]); // undefined: it stays
        for (const plot of plots) update(plot, model, ...structuredClone([Object.fromEntries(restyled), layout]));
      });
    },

    render({ model, el }) {
      const plot = document.createElement("div");
      let width = 0;
      el.append(plot);
      // a view is rendered before it is in the page, where plotly would not know how wide it may be
      const observer = new ResizeObserver(async () => {
        if (plot.clientWidth === width) return;
        width = plot.clientWidth;
        if (width === 0) return; // hidden
        if (plots.has(plot)) return Plotly.Plots.resize(plot);
        Plotly ??= load({ exports: {} });
        plots.add(plot);
        await draw(plot, model);
      });
      observer.observe(plot);
      return () => {
        observer.disconnect();
        if (plots.delete(plot)) Plotly.purge(plot);
      };
    },
  };

  // a change that plotly refuses is shown all the same: later messages tell only what differs from it
  async function update(plot, model, restyled, layout) {
    try {
      await Plotly.update(plot, restyled, layout);
    } catch (error) {
      console.warn(String(error));
      await draw(plot, model);
    }
  }

  // from nothing: plotly forgets who listened to its clicks
  async function draw(plot, model) {
    const { data, layout } = structuredClone(figure);
    await Plotly.newPlot(plot, data, layout, CONFIG);
    plot.on("plotly_click", ({ points: [{ curveNumber: trace, pointNumber: point }] }) => {
      if (Number.isInteger(point)) model.send({ trace, point });
    });
  }
};

function patch(values, changes) {
  for (const [path, value] of Object.entries(changes)) {
    const names = path.split("."), last = names.pop();
    const at = names.reduce((at, name) => (at[name] ??= {}), values);
    if (value === null) delete at[last];
    else at[last] = value;
  }
}
